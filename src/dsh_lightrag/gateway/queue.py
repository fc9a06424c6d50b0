"""The queue: jobs by name, deferred in the very transaction that writes the rows they are about.

A job only says "look at this": what is to be done stands in the rows, so that a job too many does
nothing and a lost one is deferred again by `reconcile`. The jobs of a base run one after the other,
but for fetching, which may take long; of each kind one at a time is queued per document or base.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from dsh_lightrag.errors import needs_extra

with needs_extra("gateway", "the gateway"):
    from procrastinate import App, PsycopgConnector
    from procrastinate.exceptions import AlreadyEnqueued
    from sqlalchemy import text

if TYPE_CHECKING:
    import uuid

    from sqlalchemy.ext.asyncio import AsyncSession


class Job(StrEnum):
    """What a worker can be asked to look at; the name is the task's."""

    INDEX = "index_document"
    FETCH = "fetch_document"
    SWEEP = "delete_document"
    COMPARE = "compare_base"
    DROP = "delete_base"


# A comparison may wait: it must not hold up what callers wait for.
_PRIORITIES = {Job.COMPARE: -1}

# Never opened: it only writes jobs, and does so through the session's own connection.
_writer = App(connector=PsycopgConnector())


async def defer(
    session: AsyncSession, job: Job, base_id: uuid.UUID, document_id: uuid.UUID | None = None
) -> bool:
    """Queue a job in the session's transaction; False when the same one is queued already."""
    arguments = {"base_id": str(base_id)}
    if document_id is not None:
        arguments["document_id"] = str(document_id)
    try:
        async with session.begin_nested():
            # Asked for inside: only that sets the savepoint, without which the refusal of a
            # second job would undo the whole transaction.
            connection = await (await session.connection()).get_raw_connection()
            await _writer.configure_task(
                job.value,
                connection=connection.driver_connection,
                lock=str(document_id if job is Job.FETCH else base_id),
                queueing_lock=f"{job.value}:{document_id or base_id}",
                priority=_PRIORITIES.get(job, 0),
            ).defer_async(**arguments)
    except AlreadyEnqueued:
        return False
    return True


async def cancel(session: AsyncSession, base_id: uuid.UUID) -> None:
    """Take every job of a base that has not begun out of the queue."""
    await session.execute(
        text(
            "SELECT procrastinate_cancel_job_v1(id, false, true) FROM procrastinate_jobs"
            " WHERE args ->> 'base_id' = :base_id AND status = 'todo'"
        ),
        {"base_id": str(base_id)},
    )
