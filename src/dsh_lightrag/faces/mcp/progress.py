"""Tells a waiting client that its call still runs, from outside the tool.

A tool is one or a few HTTP requests and knows no share of its work, so what is told is time.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import BrokenResourceError, ClosedResourceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Report = Callable[[float, float | None, str | None], Awaitable[None]]

# Well below the minute after which many clients give up on a call that says nothing.
EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Ticking:
    """How often a call is reported, and the most that it can take, in seconds."""

    budget_s: float
    every_s: float = EVERY_S

    @contextlib.asynccontextmanager
    async def around(self, name: str, report: Report) -> AsyncIterator[None]:
        """Report the time spent, again and again, until the block ends."""
        task = asyncio.create_task(self._tick(name, report))
        try:
            yield
        finally:
            task.cancel()

    async def _tick(self, name: str, report: Report) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        # A client that went away is noticed by whoever reads from it.
        with contextlib.suppress(BrokenResourceError, ClosedResourceError):
            while True:
                await asyncio.sleep(self.every_s)
                spent = round(loop.time() - started, 3)
                told = f"{name}: waiting for the knowledge server, at most {self.budget_s:g} s"
                await report(spent, self.budget_s, told)
