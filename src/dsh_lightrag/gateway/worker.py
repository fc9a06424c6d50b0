"""The worker: takes jobs from the queue, and mends what was left by whatever was killed.

It lives through a database that is away for a while, and ends when it is asked to: what it has
begun is finished or, after a while, left to the next worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from dsh_lightrag.errors import LightRagError, needs_extra
from dsh_lightrag.gateway import fetching, reconcile, removal
from dsh_lightrag.gateway.forgetting import forget
from dsh_lightrag.gateway.ingest import Indexer
from dsh_lightrag.gateway.queue import Job
from dsh_lightrag.logs import frames_of, get_logger

with needs_extra("gateway", "the gateway"):
    from procrastinate import App, PsycopgConnector
    from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dsh_lightrag.gateway.database import Database
    from dsh_lightrag.gateway.fetching import Fetch
    from dsh_lightrag.gateway.knowledge import KnowledgeServer

HEARTBEAT_S = 2.0
# Jobs announce themselves; this is for an announcement that came while the queue was asked.
POLL_S = 0.5
GRACE_S = 20.0
DUE_S = 0.5
MEND_S = 2.0
COMPARE_ALL_S = 3600.0
FORGET_S = 3600.0
_RESTART_S = 1.0
_OPEN_S = 10.0


@dataclass(frozen=True, slots=True)
class Worker:
    """Indexes the documents of one database on one knowledge server.

    Attributes:
        database: where documents and jobs are.
        server: where texts are filed.
        fetch: gets what a URL holds, or raises `LightRagError`.
        audit_days: how long an audit entry is kept.
        concurrency: jobs at once; those of one base run one after the other all the same.
    """

    database: Database
    server: KnowledgeServer
    fetch: Fetch
    audit_days: int
    concurrency: int = 4

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        # Its own records name ids of documents; ours tell of what broke.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        ending = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                working = asyncio.create_task(self._work())
                await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
                working.cancel()
                (outcome,) = await asyncio.gather(working, return_exceptions=True)
                if not stop.is_set():
                    _record_interruption(outcome)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), _RESTART_S)
        finally:
            ending.cancel()

    async def _work(self) -> None:
        """Work until cancelled, or until the database goes away."""
        connector = PsycopgConnector(
            conninfo=self.database.conninfo, min_size=1, max_size=self.concurrency + 4
        )
        app = App(connector=connector)
        self._teach(app)
        async with asyncio.timeout(_OPEN_S):
            await app.open_async()
        try:
            await self._mend(app)
            await reconcile.queue_comparisons(self.database, everything=False)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_every(DUE_S, self._queue_due))
                tasks.create_task(_every(MEND_S, lambda: self._mend(app)))
                tasks.create_task(_every(COMPARE_ALL_S, self._compare_all))
                tasks.create_task(self._forget())
                await app.run_worker_async(
                    concurrency=self.concurrency,
                    install_signal_handlers=False,
                    delete_jobs="always",
                    fetch_job_polling_interval=POLL_S,
                    shutdown_graceful_timeout=GRACE_S,
                    update_heartbeat_interval=HEARTBEAT_S,
                    stalled_worker_timeout=reconcile.GONE_S,
                )
                raise ConnectionError("the queue's connection was lost")
        finally:
            await app.close_async()

    def _teach(self, app: App) -> None:
        """Say what each job does; arguments are ids, as text."""
        indexer = Indexer(self.database, self.server)

        async def index(base_id: str, document_id: str) -> None:  # noqa: ARG001 - for the queue
            await indexer.index(UUID(document_id))

        async def fetch(base_id: str, document_id: str) -> None:  # noqa: ARG001 - for the queue
            await fetching.fetch_document(self.database, self.fetch, UUID(document_id))

        async def sweep(base_id: str) -> None:
            await removal.remove_unwanted(self.database, self.server, UUID(base_id))

        async def compare(base_id: str) -> None:
            await reconcile.compare(self.database, self.server, UUID(base_id))

        async def drop(base_id: str) -> None:
            await removal.drop_base(self.database, self.server, UUID(base_id))

        jobs: dict[Job, Callable[..., Awaitable[None]]] = {
            Job.INDEX: index,
            Job.FETCH: fetch,
            Job.SWEEP: sweep,
            Job.COMPARE: compare,
            Job.DROP: drop,
        }
        for job, work in jobs.items():
            app.task(name=job.value)(_noted(job, work))

    async def _queue_due(self) -> None:
        await reconcile.queue_what_is_due(self.database)

    async def _compare_all(self) -> None:
        await reconcile.queue_comparisons(self.database, everything=True)

    async def _forget(self) -> None:
        """Forget at once and then now and then: a worker may never live for as long as that."""
        while True:
            try:
                await forget(self.database, self.audit_days)
            except SQLAlchemyError as error:  # a lock, or no right to: no reason to index nothing
                get_logger().warning("forgetting_failed", error=type(error).__name__)
            await asyncio.sleep(FORGET_S)

    async def _mend(self, app: App) -> None:
        await reconcile.let_go_of_stalled_jobs(self.database, app)
        await reconcile.queue_what_was_lost(self.database)


def _record_interruption(error: BaseException | None) -> None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = frames_of(error) if error else []
    get_logger().warning("worker_interrupted", error=type(error).__name__, frames=frames)


def _noted(job: Job, work: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Let a job that fails leave a record without ids; what it was about is queued anew."""

    async def noted(**arguments: str) -> None:
        try:
            await work(**arguments)
        except LightRagError as error:
            get_logger().warning("job_failed", job=job.value, code=error.code.value)
        except Exception as error:  # noqa: BLE001 - a bug or the database: the row stays as it is
            fault = {"error": type(error).__name__, "frames": frames_of(error)}
            get_logger().warning("job_broke", job=job.value, **fault)

    return noted


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do something now and then; a failure ends the worker's turn, which begins anew."""
    while True:
        await asyncio.sleep(seconds)
        await work()
