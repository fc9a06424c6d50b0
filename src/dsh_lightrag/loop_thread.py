"""Event loops for callers without `await`, in a thread of their own or in this one.

A name lookup cannot be cancelled, only left behind: on these loops it runs in a daemon thread, so
that neither the end of the loop nor the end of the process waits for a resolver that is silent.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

# Cancelled tasks end at once; only a name lookup that hangs in its thread can take longer.
CLOSE_S = 5.0


class _DaemonExecutor(concurrent.futures.ThreadPoolExecutor):
    """A daemon thread per job; nobody waits for what is left."""

    def submit(
        self, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the future carries it
                outcome = functools.partial(future.set_exception, error)
            else:
                outcome = functools.partial(future.set_result, result)
            # Cancelled meanwhile: nobody waits, and the loop may be gone.
            with contextlib.suppress(concurrent.futures.InvalidStateError, RuntimeError):
                outcome()

        threading.Thread(target=work, name="dsh-lightrag-lookup", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the signature is the base class's
        """Do not wait, whatever is asked."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop whose end waits for no name lookup."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DaemonExecutor(max_workers=1))
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, on such a loop."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(coroutine)


class LoopThread:
    """A daemon thread that runs an event loop until it is stopped.

    When it is stopped, what still runs in it is cancelled, and then `farewell` is awaited there.
    """

    def __init__(self, farewell: Callable[[], Awaitable[None]] | None = None) -> None:
        self._loop = new_loop()
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
