"""A coroutine waited for without `await`, inside a running event loop too.

`BlockingToolbox` does the same for tools, with one thread for many calls; the two should share
their loop thread one day. Here a call is rare and slow, so each has a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

# A cancelled request ends at once; only a name lookup that hangs in its thread takes longer.
CLOSE_S = 5.0


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop in a thread of its own and return what it returns.

    Whatever interrupts the wait (KeyboardInterrupt, above all) cancels the coroutine.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_serve, args=(loop,), name="dsh-lightrag", daemon=True)
    thread.start()
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop; when it is stopped, end what still runs in it."""
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_wind_up())
        loop.close()


async def _wind_up() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
