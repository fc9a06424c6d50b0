"""Connections of our HTTP servers: so many at once, none that sends nothing, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from dsh_lightrag.logs import fault_of, get_logger

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from dsh_lightrag.guard import App, Message, Receive, Send

# Each takes a file descriptor, of which bases and databases need some as well.
MOST = 512
# How long a client may take to send the head of a request, and be silent amid its body.
HEAD_S = 20.0
BODY_S = 60.0
# What it has not read so long after its connection was closed is dropped.
_FLUSH_S = 10.0
# A client that does not read has no part in how long a server takes to end.
_LAST_WORD_S = 0.5
_OPEN_FILES = 65_536
_LINES = b"application/x-ndjson"
_ENDING = "The server is ending. Ask again when it runs."


class Connection(H11Protocol):
    """uvicorn's connection, closed where there are too many, or where it is silent for too long.

    uvicorn itself waits for ever for a first request, and for the rest of one that has begun.
    """

    _silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take a connection, or let go of it at once."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self._wait(HEAD_S)

    def data_received(self, data: bytes) -> None:
        """Take what came: a head must come whole in its time, each piece of a body in its own."""
        super().data_received(data)
        cycle = self._cycle()
        if cycle is None or cycle.response_complete:
            if self._silence is None:  # pieces of one head have one time together
                self._wait(HEAD_S)
        else:
            self._stop_waiting()
            if cycle.more_body:
                self._wait(BODY_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _cycle(self) -> RequestResponseCycle | None:
        """Return the request that is being answered, or was last; none before the first one."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle

    def _wait(self, seconds: float) -> None:
        self._silence = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._silence = None
        cycle = self._cycle()
        if cycle is not None and not cycle.response_complete:
            if self.flow.read_paused:  # it is not the client that is silent
                self._wait(BODY_S)
                return
            if not cycle.more_body:
                return
        self.transport.close()
        self.loop.call_later(_FLUSH_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


class Ending:
    """Pure ASGI, around a whole application: tells clients whose request its server's end cuts."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            # uvicorn cancels a request when it ends and at no other time.
            if not await answer.told_of_the_end():
                raise  # the connection must end visibly cut


class _Answer:
    """One answer as far as it was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._whole = False

    async def send(self, message: Message) -> None:
        """Send on."""
        if message["type"] == "http.response.start":
            self._headers = list(message["headers"])
        elif message["type"] == "http.response.body":
            self._whole = not message.get("more_body", False)
        await self._send(message)

    async def told_of_the_end(self) -> bool:
        """Say that nothing follows, where its form has room for that; tell whether it is whole."""
        if self._whole:
            return True
        try:
            async with asyncio.timeout(_LAST_WORD_S):
                if self._headers is None:
                    kind = [(b"content-type", b"application/json"), (b"connection", b"close")]
                    start = {"type": "http.response.start", "status": 503, "headers": kind}
                    await self._send(start)
                    await self._say(detail=_ENDING)
                elif any(value.startswith(_LINES) for _, value in self._headers):
                    await self._say(error=_ENDING)
                else:
                    return False
        except (TimeoutError, asyncio.CancelledError):  # it does not read, or was cancelled again
            return False
        return True

    async def _say(self, **words: str) -> None:
        await self._send({"type": "http.response.body", "body": json.dumps(words).encode() + b"\n"})


def allow_many_files() -> None:
    """Raise the bound of open files, as far as may be: connections and bases take some."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # it stays, or there is none
        import resource  # noqa: PLC0415 - POSIX alone has it

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        unbounded = hard == resource.RLIM_INFINITY
        wanted = _OPEN_FILES if unbounded else min(hard, _OPEN_FILES)
        if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Told(logging.Handler):
    """Writes uvicorn's complaints as records of ours; without one, Python prints tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return  # the server's end, which is told once
        facts: dict[str, Any] = fault_of(error) if isinstance(error, Exception) else {}
        said = record.getMessage().strip()
        if said.startswith("Traceback"):  # as text, of what broke its start
            said = said.splitlines()[-1].partition(":")[0]
        get_logger().warning("http_server", said=said[:200], **facts)


def tell_uvicorns_complaints() -> None:
    """Let uvicorn's logger write to ours; once, however often it is called."""
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(handler, Told) for handler in logger.handlers):
        logger.addHandler(Told(logging.WARNING))
