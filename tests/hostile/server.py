"""A hostile HTTP server over real sockets: it reads a request, then misbehaves as it was told.

    with HostileServer({"POST /query": never_answers, "GET /health": json_value({})}) as server:
        ...  # server.url, server.requests, server.connections, server.hang_ups

A `Behaviour` is a function of one `Exchange`; `behaviours.py` has them. Everything received is
kept as raw bytes, so that a test can tell what was sent, and that nothing was sent. Blocking
sockets, one thread each; leaving the context breaks every one of them off and fails when a thread
would stay.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl

NOT_FOUND = (
    b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n"
    b'{"detail":"Not Found"}'
)


class PeerLeftError(Exception):
    """The client closed or reset the connection."""


class StoppedError(Exception):
    """The test is over: whatever the server was doing, it stops."""


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    raw: bytes

    @property
    def head(self) -> str:
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def method(self) -> str:
        return self.head.split(" ", 2)[0]

    @property
    def target(self) -> str:
        return self.head.split(" ", 2)[1]

    @property
    def headers(self) -> dict[str, str]:
        pairs = (line.partition(":") for line in self.head.split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in pairs}

    @property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]


class Exchange:
    """One request and the raw socket on which it is to be answered."""

    def __init__(self, request: Request, sock: socket.socket, stopping: threading.Event) -> None:
        self.request = request
        self.closed = False
        self._socket = sock
        self._stopping = stopping

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._why() from error

    def pause(self, seconds: float) -> None:
        """Wait, unless the client leaves or the test ends first."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self._socket], [], [], min(left, 0.02))
            if self._stopping.is_set():
                raise StoppedError
            if readable and not self._receive():
                raise PeerLeftError

    def hold(self) -> None:
        """Say nothing until the client leaves or the test ends."""
        while True:
            self.pause(60)

    def half_close(self) -> None:
        """Send no more, and keep on listening."""
        self._socket.shutdown(socket.SHUT_WR)
        self.hold()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def reset(self) -> None:
        """Close with a TCP reset instead of a clean end."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65_536)
        except OSError as error:
            raise self._why() from error

    def _why(self) -> Exception:
        return StoppedError() if self._stopping.is_set() else PeerLeftError()


Behaviour = Callable[[Exchange], None]


class HostileServer:
    """A server of one behaviour for everything, or of one per "METHOD /path" (others get 404).

    Attributes:
        requests: everything received, in order of arrival.
        connections: how many connections were accepted.
        hang_ups: how many of them the client closed before the server was done with them.
    """

    def __init__(
        self,
        answer: Behaviour | Mapping[str, Behaviour],
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        reads_requests: bool = True,
    ) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.hang_ups = 0
        self._host = host
        self._tls = tls
        self._reads_requests = reads_requests
        self._stopping = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._faults: list[Exception] = []

    def __enter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._listener = socket.create_server((self._host, 0), family=family, backlog=128)
        self._listener.settimeout(0.02)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._threads[0].join(5)
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive(), "a connection of the hostile server does not end"
        if self._faults:
            raise self._faults[0]

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    @property
    def received(self) -> bytes:
        """Everything that any client sent, one request after the other."""
        return b"\n".join(request.raw for request in self.requests)

    @property
    def open_connections(self) -> int:
        """How many connections neither side has closed yet."""
        return sum(thread.is_alive() for thread in self._threads[1:])

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with self._listener:
            while not self._stopping.is_set():
                with contextlib.suppress(TimeoutError):
                    sock, _ = self._listener.accept()
                    sock.settimeout(None)
                    self._sockets.append(sock)
                    self.connections += 1
                    self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._tls is not None:
                # The handshake belongs to the connection, so it happens in its thread.
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._sockets.append(sock)
            self._converse(sock)
        except PeerLeftError:
            self.hang_ups += 1
        except (OSError, StoppedError):
            pass  # a refused handshake, a reset, the end of the test
        except Exception as fault:  # noqa: BLE001 - a fault of the test: shown when it ends
            self._faults.append(fault)
        finally:
            sock.close()

    def _converse(self, sock: socket.socket) -> None:
        if not self._reads_requests:
            self._misbehave(Exchange(Request(b""), sock, self._stopping))
            return
        while (request := _read_request(sock)) is not None:
            self.requests.append(request)
            exchange = Exchange(request, sock, self._stopping)
            self._misbehave(exchange)
            if exchange.closed:
                return

    def _misbehave(self, exchange: Exchange) -> None:
        answer = self.answer
        if isinstance(answer, Mapping):
            route = f"{exchange.request.method} {exchange.request.target}"
            answer = answer.get(route, lambda unknown: unknown.send(NOT_FOUND))
        answer(exchange)


def _read_request(sock: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        received = sock.recv(65_536)
        if not received:
            return None
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(Request(head).headers.get("content-length", "0"))
    while len(body) < length:
        received = sock.recv(65_536)
        if not received:
            return None
        body += received
    return Request(head + b"\r\n\r\n" + body)


@contextlib.contextmanager
def never_accepts() -> Iterator[str]:
    """Yield the URL of a listener whose queue is full, so that connecting hangs."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003 - the name of the method says it
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def refused_url() -> str:
    """Return a URL on loopback on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
