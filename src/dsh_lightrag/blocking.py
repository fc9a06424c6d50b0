"""The tools without `await`: for hosts that have no event loop, and for code inside a running one.

with BlockingToolbox(LightRagSettings()) as tools:
    print(tools.call("dsh_lightrag_status").text)
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

from dsh_lightrag.dispatch import AnyTool, Dispatcher, Outcome
from dsh_lightrag.loop_thread import LoopThread
from dsh_lightrag.tools.catalog import toolbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_lightrag.settings import LightRagSettings


class BlockingToolbox:
    """Calls tools from any thread and waits for them, on an event loop in a thread of its own.

    The thread starts at the first call, so a toolbox that is never used costs nothing. Calls
    from several threads run side by side over one pool of connections. A caller that runs an
    event loop itself may call, but blocks its loop meanwhile: it has `toolbox()` for that.

    Closed by `close()`, by `with`, when it is no longer referenced, or at the end of the
    process, whichever comes first. A forked child starts a thread and connections of its own
    at its first call; the parent's stay the parent's.
    """

    def __init__(self, source: LightRagSettings | Dispatcher) -> None:
        self._dispatcher = source if isinstance(source, Dispatcher) else toolbox(source)
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._closed = False
        _toolboxes.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that are switched on, in catalog order."""
        return self._dispatcher.tools

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call a tool and wait for it; the wait ends with the call's own budget.

        Whatever interrupts the wait (KeyboardInterrupt, above all) cancels the call.

        Raises:
            LightRagError: the call failed; `disabled` for a tool that is switched off.
            UnknownToolError: the name is in no catalog.
            RuntimeError: the toolbox is closed, or was closed meanwhile by another thread.
        """
        with self._lock:  # between a call's beginning and close() there must be an order
            future = self._running().submit(self._dispatcher.call(name, arguments))
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError("The toolbox was closed while this call was running.") from None
        except BaseException:  # whatever ends the wait, an interrupt above all, ends the call
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel the calls that still run and close the connections; idempotent."""
        with self._lock:
            self._closed = True
            finalizer = self._finalizer
        if finalizer is not None:
            finalizer()

    def _running(self) -> LoopThread:
        if self._closed:
            raise RuntimeError("The toolbox is closed.")
        if self._loop is None:
            self._loop = LoopThread(farewell=self._dispatcher.aclose)
            # Also called when the toolbox is collected, and by atexit.
            self._finalizer = weakref.finalize(self, self._loop.stop)
        return self._loop

    def _forget_parent(self) -> None:
        """Start afresh in a forked child, where the thread does not exist.

        The parent's loop is let go, not closed, which would reach through descriptors that both
        processes share. (Nor is it collected: the thread's frame, never left, still holds it.)
        """
        self._lock = threading.Lock()  # another thread may have held it at the fork
        if self._finalizer is not None:
            self._finalizer.detach()
        self._loop = self._finalizer = None


# --- forks ------------------------------------------------------------------------------------

_toolboxes: weakref.WeakSet[BlockingToolbox] = weakref.WeakSet()


def _forget_parents() -> None:
    for inherited in list(_toolboxes):
        inherited._forget_parent()  # noqa: SLF001 - the class and its fork rule are one subject


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget_parents)
