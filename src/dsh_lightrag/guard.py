"""What an HTTP server of ours refuses before it routes: foreign hosts, web pages, huge bodies.

A web page can send requests to this machine from its visitor's browser. Its Origin gives it away,
or, where its own name was made to point here (DNS rebinding), its Host. Every request is held to
both, whatever its method and path, and none is answered with a CORS header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 1024 * 1024
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_ALLOWED_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?:[0-9]{1,5}|\*))?")
_ORIGIN = re.compile(rf"(https?)://({_AUTHORITY.pattern})")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Refused(Enum):
    """Why a request does not come in, with its status."""

    HOST = (421, "The Host header names no host of this server.")
    ORIGIN = (403, "Requests from other origins are not let in.")
    BODY = (413, "The request body is too large.")

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Reply:
    """What a refused request is answered with; the status is the refusal's own."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Entry:
    """Who comes in, and with how much.

    Attributes:
        hosts: what the Host header may name, as `name` (any port), `name:port` or `name:*`.
        origins: what the Origin header may hold besides the very address that was asked.
        max_body: most bytes of a body.
        larger: patterns of whole paths whose bodies may have other sizes, the first match counts.

    Raises:
        ConfigurationError: a host or origin that no header can match.
    """

    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    max_body: int = MAX_BODY
    larger: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for key, rule, values in (
            ("allowed hosts", _ALLOWED_HOST, self.hosts),
            ("allowed origins", _ORIGIN, self.origins),
        ):
            if not all(rule.fullmatch(value.lower()) for value in values):
                raise ConfigurationError(
                    key, "One matches no header.", "Write name or name:port, and no path."
                )

    def lets_in_host(self, host: str) -> bool:
        """Tell whether a Host header names this server."""
        match = _AUTHORITY.fullmatch(host.lower())
        if match is None:
            return False
        name = match[1]
        wanted = {name, f"{name}:*", host.lower()}
        return any(allowed.lower() in wanted for allowed in self.hosts)

    def lets_in_origin(self, origin: str, host: str) -> bool:
        """Tell whether an Origin header is that of the host asked, or one that was configured."""
        match = _ORIGIN.fullmatch(origin.lower())
        if match is None:  # "null" and whatever else a browser hides behind
            return False
        scheme, authority = match[1], match[2]
        same = _with_port(authority, scheme) == _with_port(host.lower(), scheme)
        return same or origin.lower() in {allowed.lower() for allowed in self.origins}

    def most_bytes(self, path: str) -> int:
        """Return how large the body of a request to a path may be."""
        for pattern, most in self.larger:
            if re.fullmatch(pattern, path):
                return most
        return self.max_body


def _with_port(authority: str, scheme: str) -> str:
    match = _AUTHORITY.fullmatch(authority)
    named = match is not None and match[2] is not None
    return authority if named else f"{authority}:{_DEFAULT_PORTS[scheme]}"


class Guard:
    """Pure ASGI, around a whole application: refuses before routing, credentials and parsing.

    Args:
        app: what is guarded.
        entry: who comes in.
        answer: words a refusal; it gets the most bytes where the body is too large, else None.
    """

    def __init__(
        self, app: App, entry: Entry, answer: Callable[[Refused, int | None], Reply]
    ) -> None:
        self._app = app
        self._entry = entry
        self._answer = answer

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on."""
        if scope["type"] == "websocket":  # no server of ours speaks it
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif refused := self._refusal(scope["headers"]):
            await self._refuse(refused, None, send)
        else:
            await self._with_bounded_body(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refused | None:
        named: dict[bytes, list[str]] = {b"host": [], b"origin": []}
        for name, value in headers:
            if name in named:
                named[name].append(value.decode("latin-1"))
        hosts, origins = named[b"host"], named[b"origin"]
        if len(hosts) != 1 or not self._entry.lets_in_host(hosts[0]):
            return Refused.HOST
        if not all(self._entry.lets_in_origin(origin, hosts[0]) for origin in origins):
            return Refused.ORIGIN
        return None

    async def _with_bounded_body(self, scope: Message, receive: Receive, send: Send) -> None:
        most = self._entry.most_bytes(scope["path"])
        if _announced(scope["headers"]) > most:
            await self._refuse(Refused.BODY, most, send)
            return
        body = _BoundedBody(most, receive, send, self._refuse)
        try:
            await self._app(scope, body.receive, body.send)
        except Exception:  # what an application makes of a body that ends early is not our matter
            if not body.refused:
                raise

    async def _refuse(self, refused: Refused, most: int | None, send: Send) -> None:
        # The connection stays open: closed with unread bytes, it would be reset, and the client
        # would not see the answer. What still comes is read and dropped by the server.
        reply = self._answer(refused, most)
        headers = [
            (b"content-type", reply.content_type.encode("latin-1")),
            (b"content-length", str(len(reply.body)).encode()),
        ]
        status = refused.status
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


class _BoundedBody:
    """One request's two channels: counts what comes in, and goes silent once it was refused."""

    def __init__(
        self,
        most: int,
        receive: Receive,
        send: Send,
        refuse: Callable[[Refused, int | None, Send], Awaitable[None]],
    ) -> None:
        self._most = most
        self._receive = receive
        self._send = send
        self._refuse = refuse
        self._seen = 0
        self._answered = False
        self.refused = False

    async def receive(self) -> Message:
        """Hand on what comes in; a body that grows too large looks like a client that left."""
        if self.refused:
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen <= self._most:
            return message
        self.refused = True
        if not self._answered:
            await self._refuse(Refused.BODY, self._most, self._send)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Hand on what goes out, unless the refusal went out before."""
        if self.refused and not self._answered:
            return
        self._answered = True
        await self._send(message)


def _announced(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the length that a request says it has; 0 where it says none that can be read."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return max((int(value[:20]) for value in lengths if value.isdigit()), default=0)
