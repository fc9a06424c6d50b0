"""At most so many model calls at once over all workspaces, questions before documents.

Each LightRAG object has queues of its own, so ten workspaces would call a model forty times at
once. They are taken out (`inside.py`), and every call passes one of these gates instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Gate:
    """A bound on concurrent calls. Who is urgent goes before who is not, else first come."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._patient: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self, *, urgent: bool) -> AsyncIterator[None]:
        """Wait for a free slot and hold it."""
        await self._enter(self._urgent if urgent else self._patient)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, line: deque[asyncio.Future[None]]) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was ours already: hand it on
                self._leave()
            raise

    def _leave(self) -> None:
        for line in (self._urgent, self._patient):
            while line:
                turn = line.popleft()
                if not turn.done():  # a cancelled one waits no more
                    turn.set_result(None)
                    return
        self._free += 1
