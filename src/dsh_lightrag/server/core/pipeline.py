"""LightRAG's pipeline of a workspace: process, delete, clear, retry, begin again after faults.

LightRAG coordinates these by flags in its shared memory; its server's routes set them, so what
they do is done here in the same order. Unlike them, a run that a fault ended is begun again, at
opening and later: rows that a killed process left at `processing` would stay there for ever.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lightrag.base import DocStatus
from lightrag.kg.shared_storage import (
    acquire_reservation,
    commit_manual_retry_request,
    get_namespace_data,
    get_namespace_lock,
    get_pipeline_ingress,
    release_owned_reservation,
)

from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.server.backend import BUSY, BackendError, BusyError, WorkspaceLockedError
from dsh_lightrag.server.core.rows import state_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dsh_lightrag.server.backend import PipelineState
    from dsh_lightrag.server.core.inside import Core

UNFINISHED = (
    DocStatus.PENDING,
    DocStatus.PARSING,
    DocStatus.ANALYZING,
    DocStatus.PROCESSING,
    DocStatus.PREPROCESSED,
)
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_BUSY_MEND = "Wait until the pipeline is idle, then try again."


class Pipeline:
    """The pipeline of one open workspace.

    Attributes:
        hold: makes sure that this process still holds the workspace; called before each run.
    """

    def __init__(self, core: Core, hold: Callable[[], Awaitable[None]]) -> None:
        self._core = core
        self._hold = hold
        self._wanted = False
        self._driver: asyncio.Task[None] | None = None
        self._deleter: asyncio.Task[None] | None = None

    # --- processing ---------------------------------------------------------------------------

    def drive(self) -> None:
        """Process what waits, in the background; a run under way takes up what is new."""
        self._wanted = True
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())

    async def _drive(self) -> None:
        pause = _FIRST_PAUSE_S
        while self._wanted:
            self._wanted = False
            if await self._processed():
                pause = _FIRST_PAUSE_S
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                self._wanted = True

    async def _processed(self) -> bool:
        """Run once; False when something is left that a later run may finish."""
        try:
            await self._hold()
            if not await self._has_work():
                return True
            await self._core.apipeline_process_enqueue_documents()
            return not await self._has_work()
        except WorkspaceLockedError:  # the database was away, and the other one goes on with it
            return True
        except Exception as error:  # noqa: BLE001 - in the background nobody else would see it
            get_logger().warning("processing_failed", **fault_of(error))
            return False

    async def _has_work(self) -> bool:
        """Tell whether a run would find anything: an empty one wipes the messages of the last."""
        ingress = await get_pipeline_ingress(self._core.workspace)
        left = await self._core.doc_status.count_docs_by_statuses(list(UNFINISHED))
        return bool(left) or ingress.peek_next_manual_retry() is not None

    async def state(self) -> PipelineState:
        """Return what the pipeline is busy with."""
        status = await self._status()
        waiting = self._driver is not None and not self._driver.done()
        async with self._lock():
            return state_of(status, waiting=waiting)

    async def retry(self) -> None:
        """Let failed documents be processed once more, and unfinished ones with them.

        Raises:
            BusyError: a clearing or deletion is under way.
        """
        ingress = await get_pipeline_ingress(self._core.workspace)
        refusal = await commit_manual_retry_request(
            await self._status(), self._lock(), ingress, uuid4().hex, {}
        )
        if refusal:
            raise BusyError(BUSY, _BUSY_MEND)
        self.drive()

    # --- deleting -----------------------------------------------------------------------------

    async def delete(
        self,
        ids: Sequence[str],
        began: Callable[[], Awaitable[None]],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        """Delete documents in the background.

        Args:
            ids: documents of the workspace.
            began: runs when the pipeline is reserved, and before this returns.
            ended: runs when every id was tried.

        Raises:
            BusyError: the pipeline is busy.
        """
        # LightRAG lets its deletions join a job of this very name.
        token = await self._reserve("delete", f"Deleting {len(ids)} Documents", len(ids))
        try:
            await began()
            self._deleter = asyncio.create_task(self._delete(token, ids, ended))
        except BaseException:  # also a cancelled request must not leave the workspace reserved
            await self._release(token)
            raise

    async def _delete(
        self, token: str, ids: Sequence[str], ended: Callable[[], Awaitable[None]]
    ) -> None:
        status = await self._status()
        done = 0
        try:
            for place, doc_id in enumerate(ids, start=1):
                status["cur_batch"] = place
                result = await self._core.adelete_by_doc_id(doc_id, delete_llm_cache=True)
                done += result.status in ("success", "not_found")
            await ended()
        except Exception as error:  # noqa: BLE001 - in the background nobody else would see it
            get_logger().warning("deletion_failed", **fault_of(error))
        finally:
            await self._release(token, f"Deleted {done}, failed {len(ids) - done}.")
        self.drive()

    async def clear(self) -> None:
        """Drop every document, what was made of it, and the cache.

        Raises:
            BusyError: the pipeline is busy.
            BackendError: a storage refused; clearing again is safe.
        """
        token = await self._reserve("clear", "Clearing Documents", 0)
        message = "Clearing failed."
        try:
            (await get_pipeline_ingress(self._core.workspace)).clear()
            # Every drop has ended before anything is let in again.
            results = await asyncio.gather(
                *(storage.drop() for storage in storages(self._core)), return_exceptions=True
            )
            await self._core.doc_status.initialize()
            if failed := [result for result in results if _failed(result)]:
                cause = failed[0] if isinstance(failed[0], BaseException) else None
                raise BackendError(
                    "Not every document could be cleared.", "Clear again."
                ) from cause
            message = "Cleared all documents."
        finally:
            await self._release(token, message)

    async def _reserve(self, kind: str, job: str, documents: int) -> str:
        """Reserve the pipeline for a destructive job and return the token that releases it."""
        status = await self._status()
        token = uuid4().hex
        reserved = await acquire_reservation(
            status,
            self._lock(),
            owner_key="busy_owner",
            owner=token,
            owner_kind=kind,
            flags={
                "busy": True,
                "destructive_busy": True,
                "operation_record": {"kind": kind},
                "job_name": job,
                "job_start": datetime.now(UTC).isoformat(),
                "docs": documents,
                "batchs": documents,
                "cur_batch": 0,
                "cancellation_requested": False,
                "latest_message": job,
            },
            reject_when=[(flag, flag) for flag in ("busy", "scanning", "pending_enqueues")],
        )
        if not reserved.acquired:
            raise BusyError(BUSY, _BUSY_MEND)
        return token

    async def _release(self, token: str, message: str = "") -> None:
        def release(status: dict[str, Any]) -> None:
            status.update(
                busy=False,
                destructive_busy=False,
                busy_owner=None,
                operation_record=None,
                latest_message=message,
            )

        await release_owned_reservation(
            self._core.workspace, owner_key="busy_owner", token=token, action=release
        )

    # --- the end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop what runs in the background; it goes on when the workspace is opened again."""
        tasks = [task for task in (self._driver, self._deleter) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _status(self) -> Any:
        return await get_namespace_data("pipeline_status", workspace=self._core.workspace)

    def _lock(self) -> Any:
        return get_namespace_lock("pipeline_status", workspace=self._core.workspace)


def _failed(result: dict[str, str] | BaseException) -> bool:
    return isinstance(result, BaseException) or result.get("status") != "success"


def storages(core: Core) -> list[Any]:
    """Return every storage of a workspace."""
    return [
        core.text_chunks,
        core.full_docs,
        core.full_entities,
        core.full_relations,
        core.entity_chunks,
        core.relation_chunks,
        core.entities_vdb,
        core.relationships_vdb,
        core.chunks_vdb,
        core.chunk_entity_relation_graph,
        core.llm_response_cache,
        core.doc_status,
    ]
