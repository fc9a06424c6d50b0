"""An event loop in a thread of its own, for callers without `await` or inside a running loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

# Cancelled tasks end at once; only a name lookup that hangs in its thread can take longer.
CLOSE_S = 5.0


class LoopThread:
    """A daemon thread that runs an event loop until it is stopped.

    When it is stopped, what still runs in it is cancelled, and then `farewell` is awaited there.
    """

    def __init__(self, farewell: Callable[[], Awaitable[None]] | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_serve, args=(self._loop, farewell), name="dsh-lightrag", daemon=True
        )
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin a coroutine in the thread; it sees the caller's context variables."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """End the thread and wait for it, unless this is it (a collector runs anywhere)."""
        with contextlib.suppress(RuntimeError):  # closed already
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine in a thread of its own and return what it returns.

    Whatever interrupts the wait (KeyboardInterrupt, above all) cancels the coroutine.
    """
    thread = LoopThread()
    try:
        return thread.submit(coroutine).result()
    finally:
        thread.stop()


def _serve(loop: asyncio.AbstractEventLoop, farewell: Callable[[], Awaitable[None]] | None) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_wind_up(farewell))
        loop.close()


async def _wind_up(farewell: Callable[[], Awaitable[None]] | None) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if farewell is not None:
        await farewell()
    await asyncio.get_running_loop().shutdown_asyncgens()
