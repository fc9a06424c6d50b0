"""Connections of our HTTP servers: so many at once, none that stays silent, and an orderly end."""

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
# How long a client may take to send the head of a request.
HEAD_S = 20.0
# A client that does not read has no part in how long a server takes to end.
_LAST_WORD_S = 0.5
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
            self._expect_a_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that is whole has come in time."""
        super().data_received(data)
        self._expect_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_a_head(self) -> None:
        if self._has_a_request():
            self._stop_waiting()
        elif self._silence is None:
            self._silence = self.loop.call_later(HEAD_S, self._give_up)

    def _give_up(self) -> None:
        self._silence = None
        if not self._has_a_request():
            self.transport.close()

    def _has_a_request(self) -> bool:
        """Tell whether a request is being answered, or its body comes in."""
        cycle: RequestResponseCycle | None = self.cycle  # none before the first one
        return cycle is not None and not cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


class Ending:
    """Pure ASGI, around a whole application: tells clients whose request its server's end cuts.

    Nothing else cancels a request, and whoever is cancelled here is told nothing further.
    """

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
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(_LAST_WORD_S):
                    await answer.cut()


class _Answer:
    """One answer as far as it was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._headers: list[tuple[bytes, bytes]] | None = None

    async def send(self, message: Message) -> None:
        """Send on."""
        if message["type"] == "http.response.start":
            self._headers = list(message["headers"])
        await self._send(message)

    async def cut(self) -> None:
        """Say that nothing follows, where that can still be said."""
        body = json.dumps({"detail": _ENDING}).encode()
        if self._headers is None:
            headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
            await self._send({"type": "http.response.start", "status": 503, "headers": headers})
        elif any(value.startswith(_LINES) for _, value in self._headers):
            body = json.dumps({"error": _ENDING}).encode() + b"\n"
        await self._send({"type": "http.response.body", "body": body})


class Told(logging.Handler):
    """Writes uvicorn's complaints as records of ours; without one, Python prints tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        error = record.exc_info[1] if record.exc_info else None
        facts: dict[str, Any] = fault_of(error) if isinstance(error, Exception) else {}
        get_logger().warning("http_server", said=record.getMessage().strip()[:200], **facts)


def tell_uvicorns_complaints() -> None:
    """Let uvicorn's logger write to ours; once, however often it is called."""
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(handler, Told) for handler in logger.handlers):
        logger.addHandler(Told(logging.WARNING))
