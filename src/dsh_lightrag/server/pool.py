"""Open workspaces: opened when first wanted, closed when long unused, never while in use.

Everything happens on one event loop. Opening and closing run as tasks of their own, so that a
client that leaves half-way leaves nothing half-open behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.server.backend import BusyError, PipelineState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from dsh_lightrag.server.backend import Backend, Keeper


@dataclass(slots=True)
class _Slot:
    """One workspace: its opening, who uses it, and when that was last."""

    opening: asyncio.Task[Backend]
    leases: int = 0
    used_at: float = 0.0
    free: asyncio.Event = field(default_factory=asyncio.Event)


def _nothing(_: str) -> AbstractAsyncContextManager[None]:
    """Surround a removal with nothing."""
    return contextlib.nullcontext()


class Pool:
    """Leases open workspaces of a keeper.

    Args:
        keeper: opens and drops them.
        most_open: how many may stay open unused; those in use are never counted out.
        idle_s: seconds after which `sweep` closes an unused one.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        keeper: Keeper,
        *,
        most_open: int,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeper = keeper
        self._most_open = most_open
        self._idle_s = idle_s
        self._clock = clock
        self._slots: dict[str, _Slot] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._dropping: dict[str, asyncio.Task[bool]] = {}

    @property
    def open_names(self) -> list[str]:
        """The workspaces that are open or being opened, sorted."""
        return sorted(self._slots)

    @contextlib.asynccontextmanager
    async def lease(self, workspace: str) -> AsyncIterator[Backend]:
        """Hold a workspace open.

        Raises:
            BusyError: it is being removed.
            WorkspaceUnknownError, WorkspaceLockedError, WorkspaceBrokenError: from the keeper.
        """
        slot = await self._slot(workspace)
        slot.leases += 1
        slot.free.clear()
        try:
            # Shielded: others may be waiting for the same opening.
            yield await asyncio.shield(slot.opening)
        finally:
            self._give_back(slot)

    @contextlib.asynccontextmanager
    async def lease_if_open(self, workspace: str) -> AsyncIterator[Backend | None]:
        """Hold a workspace open that is open already; None where it is not."""
        if workspace in self._slots and workspace not in self._dropping:
            async with self.lease(workspace) as backend:
                yield backend
        else:
            yield None

    async def create(self, workspace: str) -> bool:
        """Make a workspace; False when it was there.

        Raises:
            BusyError: it is being removed.
        """
        self._refuse_while_dropping(workspace)
        return await self._keeper.create(workspace)

    async def drop(
        self,
        workspace: str,
        *,
        wait_s: float,
        around: Callable[[str], AbstractAsyncContextManager[None]] = _nothing,
    ) -> bool:
        """Remove a workspace once nobody uses it; False when there was none.

        `around` surrounds the removal, while nobody can come in or make it anew: what belongs to
        the workspace elsewhere goes with it, or stays with it.

        Raises:
            BusyError: it is still in use after `wait_s` seconds, or being removed already.
        """
        self._refuse_while_dropping(workspace)
        dropping = asyncio.create_task(self._drop(workspace, wait_s, around))
        self._dropping[workspace] = dropping
        dropping.add_done_callback(lambda _: self._dropping.pop(workspace, None))
        return await asyncio.shield(dropping)

    async def sweep(self) -> None:
        """Close what nobody has used for a while and what has nothing to do."""
        horizon = self._clock() - self._idle_s
        for workspace, slot in list(self._slots.items()):
            if slot.used_at <= horizon:
                await self._evict(workspace, slot)

    async def close(self) -> None:
        """Close every workspace; their users are expected to have ended."""
        await asyncio.gather(*self._dropping.values(), return_exceptions=True)
        for workspace in list(self._slots):
            self._start_closing(workspace)
        await asyncio.gather(*self._closing.values(), return_exceptions=True)

    async def _slot(self, workspace: str) -> _Slot:
        """Return the slot of a workspace, its opening begun; what is awaited is looked at anew."""
        all_in_use = False
        while True:
            self._refuse_while_dropping(workspace)
            if slot := self._slots.get(workspace):
                return slot
            if closing := self._closing.get(workspace):
                await asyncio.shield(closing)  # one writer per workspace: first out, then in
            elif len(self._slots) >= self._most_open and not all_in_use:
                all_in_use = not await self._make_room()
            else:
                return self._start_opening(workspace)

    def _start_opening(self, workspace: str) -> _Slot:
        slot = _Slot(asyncio.create_task(self._keeper.open(workspace)), used_at=self._clock())
        slot.opening.add_done_callback(lambda _: self._forget_failed(workspace, slot))
        self._slots[workspace] = slot
        return slot

    def _give_back(self, slot: _Slot) -> None:
        slot.leases -= 1
        slot.used_at = self._clock()
        if not slot.leases:
            slot.free.set()

    def _forget_failed(self, workspace: str, slot: _Slot) -> None:
        """Let the next user try again what could not be opened."""
        failed = slot.opening.cancelled() or slot.opening.exception() is not None
        if failed and self._slots.get(workspace) is slot:
            del self._slots[workspace]

    def _refuse_while_dropping(self, workspace: str) -> None:
        if workspace in self._dropping:
            raise BusyError("The workspace is being removed.", "Ask again in a moment.")

    async def _make_room(self) -> bool:
        """Close the workspace that was unused longest; False when all are in use."""
        by_age = sorted(self._slots.items(), key=lambda item: item[1].used_at)
        for workspace, slot in by_age:
            if await self._evict(workspace, slot):
                return True
        return False

    async def _evict(self, workspace: str, slot: _Slot) -> bool:
        """Close a workspace if it is unused and has nothing to do."""
        unused = not slot.leases and slot.opening.done() and workspace not in self._dropping
        if not unused or self._slots.get(workspace) is not slot:
            return False
        try:
            async with self.lease(workspace) as backend:
                state = await backend.pipeline()
        except Exception as error:  # noqa: BLE001 - it is none of those who come for another one
            get_logger().warning("workspace_state_unknown", **fault_of(error))
            state = PipelineState()  # closed: whoever opens it anew is told what is wrong
        if state.busy or state.pending_enqueues:
            return False
        if slot.leases or self._slots.get(workspace) is not slot:
            return False  # somebody came meanwhile
        await asyncio.shield(self._start_closing(workspace))
        return True

    def _start_closing(self, workspace: str) -> asyncio.Task[None]:
        slot = self._slots.pop(workspace)
        closing = asyncio.create_task(self._closed(workspace, slot))
        self._closing[workspace] = closing
        return closing

    async def _closed(self, workspace: str, slot: _Slot) -> None:
        """Close a slot, and be over for `_slot` in the same step.

        A callback would come a step later: who asks in between would wait for what is done already,
        again and again, and never give that callback its turn.
        """
        try:
            await _close(slot)
        finally:
            del self._closing[workspace]

    async def _drop(
        self,
        workspace: str,
        wait_s: float,
        around: Callable[[str], AbstractAsyncContextManager[None]],
    ) -> bool:
        if slot := self._slots.get(workspace):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while slot.leases:
                        await slot.free.wait()
            if slot.leases:
                raise BusyError("The workspace is in use.", "Ask again when its work has ended.")
            if self._slots.get(workspace) is slot:
                self._start_closing(workspace)
        if closing := self._closing.get(workspace):
            await closing
        async with around(workspace):
            return await self._keeper.drop(workspace)


async def _close(slot: _Slot) -> None:
    """Close what was opened; a fault is told to the log, since nobody waits for an answer."""
    try:
        backend = await slot.opening
        await backend.close()
    except Exception as error:  # noqa: BLE001 - as said: there is nobody to raise it to
        get_logger().warning("workspace_not_closed", **fault_of(error))
