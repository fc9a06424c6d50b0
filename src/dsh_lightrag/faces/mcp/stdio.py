"""The server over the real stdin and stdout, which the caller has claimed.

The SDK's own transport would do, but for how it ends: it waits for a line that never comes, holds
a line that never ends, and drops what was asked just before stdin closed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from dsh_lightrag.faces.mcp.wire import WireError, read_some, write_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server

CHUNK_BYTES = 65536
# As the body of a request over HTTP; the largest text that may be inserted fits in.
MAX_LINE_BYTES = 4 * 2**20
# How many messages wait for a busy server before the client must.
MAX_WAITING = 64
# For what was asked before stdin ended. Hosts wait two seconds before they end a server by force.
LAST_ANSWERS_S = 1.0


async def serve(server: Server[None], reading: int, writing: int) -> None:
    """Answer one client until it closes stdin.

    Raises:
        BrokenPipeError: it stopped reading before that.
        WireError: stdin or stdout failed, or a line on stdin has no end.
    """
    talk = _Talk(reading, writing)
    await talk.run(server)
    if talk.failure is not None:
        raise talk.failure


class _Talk:
    """The messages of one client, in and out; `failure` is what ended them before their end."""

    def __init__(self, reading: int, writing: int) -> None:
        self.failure: BrokenPipeError | WireError | None = None
        self._lines = _Lines(reading)
        self._writing = writing
        self._unanswered: set[types.RequestId] = set()
        self._answered = anyio.Event()

    async def run(self, server: Server[None]) -> None:
        """Serve until stdin ends or either direction fails."""
        heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
        outgoing, said = anyio.create_memory_object_stream[SessionMessage]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_failure, tasks.cancel_scope, self._hear(heard))
            tasks.start_soon(self._until_failure, tasks.cancel_scope, self._say(said))
            await server.run(incoming, outgoing, server.create_initialization_options())

    async def _until_failure(
        self, everything: anyio.CancelScope, direction: Coroutine[None, None, None]
    ) -> None:
        try:
            await direction
        except (BrokenPipeError, WireError) as failure:
            self.failure = failure
            everything.cancel()

    async def _hear(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with heard:
            async for line in self._lines:
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError:
                    continue  # as the SDK does: no id, so nobody to be answered
                self._note(message)
                await heard.send(SessionMessage(message))
            with anyio.move_on_after(LAST_ANSWERS_S):
                while self._unanswered:
                    self._answered = anyio.Event()
                    await self._answered.wait()

    def _note(self, message: types.JSONRPCMessage) -> None:
        """Keep the ids of requests to which an answer will come."""
        if isinstance(message, types.JSONRPCRequest):
            self._unanswered.add(message.id)
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, str | int):
                self._unanswered.discard(cancelled)

    async def _say(self, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with said:
            async for one in said:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                # A thread, since a client that reads slowly must not stop the other calls.
                await anyio.to_thread.run_sync(write_all, self._writing, f"{text}\n".encode())
                if isinstance(one.message, types.JSONRPCResponse | types.JSONRPCError):
                    if one.message.id is not None:
                        self._unanswered.discard(one.message.id)
                    self._answered.set()


class _Lines:
    """The lines of a descriptor, read by a thread that nothing has to wait for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        # None is the end; an error is raised where the lines are awaited.
        self._queue: asyncio.Queue[str | WireError | None] = asyncio.Queue(MAX_WAITING)

    async def __aiter__(self) -> AsyncIterator[str]:
        threading.Thread(target=self._read, name="stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            if isinstance(line, WireError):
                raise line
            yield line

    def _read(self) -> None:
        # Either means that the loop has ended, and nobody waits for lines any more.
        with contextlib.suppress(concurrent.futures.CancelledError, RuntimeError):
            try:
                for line in lines_of(self._descriptor):
                    self._put(line)
            except WireError as error:
                self._put(error)
            except MemoryError:  # or the server would be deaf from here on
                self._put(WireError("there is no memory for a line on stdin."))
            else:
                self._put(None)

    def _put(self, line: str | WireError | None) -> None:
        # Waits while the queue is full, so that a client cannot fill the memory.
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()


def lines_of(descriptor: int) -> Iterator[str]:
    """Yield the lines of a descriptor until its end; bytes that are no UTF-8 become U+FFFD.

    Raises:
        WireError: it cannot be read; or a line is longer than any message may be.
    """
    pieces: list[bytes] = []
    held = 0
    while chunk := read_some(descriptor, CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end]).decode("utf-8", "replace")
            pieces.clear()
            held = 0
        pieces.append(rest)
        held += len(rest)
        if held > MAX_LINE_BYTES:
            raise WireError(f"a line on stdin is longer than {MAX_LINE_BYTES} bytes.")
    if any(pieces):
        yield b"".join(pieces).decode("utf-8", "replace")
