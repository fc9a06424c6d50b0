"""The server over the real stdin and stdout, which the caller has claimed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread
from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp.server.lowlevel import Server

    from dsh_lightrag.faces.mcp.wire import Wire

CHUNK_BYTES = 65536
# How many messages wait for a busy server before the client must.
MAX_WAITING = 64


async def serve(server: Server[None], wire: Wire) -> None:
    """Answer one client until it closes stdin or stops reading."""
    try:
        async with stdio_server(
            cast("Any", _Lines(wire.reading)), cast("Any", _Out(wire.writing))
        ) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client is gone, and nobody is left to be told


class _Lines:
    """The lines of a descriptor, read by a thread that nothing has to wait for.

    The SDK's own reader cannot be interrupted: a signal, or a client that has only stopped
    reading, would leave the process waiting for a line that never comes.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)

    async def __aiter__(self) -> AsyncIterator[str]:
        threading.Thread(target=self._read, name="stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            yield line

    def _read(self) -> None:
        # Either means that the loop has ended, and nobody waits for lines any more.
        with contextlib.suppress(concurrent.futures.CancelledError, RuntimeError):
            for line in lines_of(self._descriptor):
                self._put(line)
            self._put(None)

    def _put(self, line: str | None) -> None:
        # Waits while the queue is full, so that a client cannot fill the memory.
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()


class _Out:
    """A descriptor as the SDK writes to it: one trip to a thread for each message."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        await anyio.to_thread.run_sync(_write, self._descriptor, text.encode())

    async def flush(self) -> None:
        pass


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def lines_of(descriptor: int) -> Iterator[str]:
    """Yield the lines of a descriptor until its end; bytes that are no UTF-8 become U+FFFD."""
    pieces: list[bytes] = []
    while chunk := os.read(descriptor, CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end]).decode("utf-8", "replace")
            pieces.clear()
        pieces.append(rest)
    if any(pieces):
        yield b"".join(pieces).decode("utf-8", "replace")
