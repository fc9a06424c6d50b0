"""Bringing rows, queue and knowledge server together again, after whatever was killed.

The rows say what is wanted. A document that waits is queued when its time has come; one that no
job looks at is queued anew; jobs of workers that are gone are let go; and what the knowledge
server holds is compared with the rows, so that exactly one version of each document is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_lightrag.errors import Code, LightRagError, needs_extra
from dsh_lightrag.gateway import queue
from dsh_lightrag.gateway.outcomes import Failed
from dsh_lightrag.gateway.progress import UNFINISHED, give_up
from dsh_lightrag.gateway.queue import Job
from dsh_lightrag.gateway.removal import unwanted
from dsh_lightrag.gateway.tables import (
    IndexedText,
    KnowledgeBase,
    KnowledgeDocument,
)

with needs_extra("gateway", "the gateway"):
    from procrastinate.jobs import Status
    from sqlalchemy import String, cast, column, exists, func, select, table, text
    from sqlalchemy.dialects.postgresql import JSONB

if TYPE_CHECKING:
    import uuid

    from procrastinate import App
    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import InstrumentedAttribute

    from dsh_lightrag.gateway.database import Database
    from dsh_lightrag.gateway.knowledge import KnowledgeServer

# How many rows one transaction takes up.
BATCH = 200
# After how many silent seconds a worker is gone. No job runs for as long as `_OVERDUE` says.
GONE_S = 8.0
_OVERDUE = text(
    "DELETE FROM procrastinate_jobs WHERE status = 'doing' AND id IN (SELECT job_id FROM"
    " procrastinate_events WHERE type = 'started' GROUP BY job_id"
    " HAVING max(at) < now() - interval '15 minutes')"
)

_jobs = table("procrastinate_jobs", column("args", JSONB), column("task_name"), column("status"))


def _no_job(
    key: str, subject: InstrumentedAttribute[uuid.UUID], *kinds: Job
) -> ColumnElement[bool]:
    """Return the condition that no job of these kinds is queued or running for a subject.

    `key` is the job's argument that names the subject; an equality, which PostgreSQL can hash.
    """
    return ~exists().where(
        _jobs.c.args[key].astext == cast(subject, String),
        _jobs.c.task_name.in_([kind.value for kind in kinds]),
        cast(_jobs.c.status, String).in_(("todo", "doing")),
    )


async def queue_what_is_due(database: Database) -> int:
    """Queue the documents whose time to be looked at again has come; return how many."""
    async with database.sessions.begin() as session:
        due = await session.scalars(
            select(KnowledgeDocument)
            .where(
                KnowledgeDocument.status.in_(UNFINISHED), KnowledgeDocument.retry_at <= func.now()
            )
            .order_by(KnowledgeDocument.retry_at)
            .limit(BATCH)
            .with_for_update(skip_locked=True)
        )
        documents = due.all()
        for document in documents:
            document.retry_at = None
            await queue.defer(session, Job.INDEX, document.base_id, document.id)
    return len(documents)


async def queue_what_was_lost(database: Database) -> int:
    """Queue anew what should be worked on and no job looks at; return how many there were."""
    async with database.sessions.begin() as session:
        return (
            await _documents_without_a_job(session)
            + await _texts_without_a_job(session)
            + await _deletions_without_a_job(session)
        )


async def _documents_without_a_job(session: AsyncSession) -> int:
    lost = await session.execute(
        select(KnowledgeDocument.base_id, KnowledgeDocument.id)
        .join(KnowledgeBase, KnowledgeBase.id == KnowledgeDocument.base_id)
        .where(
            KnowledgeBase.state == "active",
            KnowledgeDocument.status.in_(UNFINISHED),
            KnowledgeDocument.retry_at.is_(None),
            _no_job("document_id", KnowledgeDocument.id, Job.INDEX, Job.FETCH),
        )
        .limit(BATCH)
    )
    rows = lost.all()
    for base_id, document_id in rows:
        await queue.defer(session, Job.INDEX, base_id, document_id)
    return len(rows)


async def _texts_without_a_job(session: AsyncSession) -> int:
    lost = await session.scalars(
        select(IndexedText.base_id)
        .join(KnowledgeBase, KnowledgeBase.id == IndexedText.base_id)
        .where(
            KnowledgeBase.state == "active",
            unwanted(),
            _no_job("base_id", IndexedText.base_id, Job.SWEEP),
        )
        .distinct()
        .limit(BATCH)
    )
    base_ids = lost.all()
    for base_id in base_ids:
        await queue.defer(session, Job.SWEEP, base_id)
    return len(base_ids)


async def _deletions_without_a_job(session: AsyncSession) -> int:
    lost = await session.scalars(
        select(KnowledgeBase.id)
        .where(KnowledgeBase.state == "deleting", _no_job("base_id", KnowledgeBase.id, Job.DROP))
        .limit(BATCH)
    )
    base_ids = lost.all()
    for base_id in base_ids:
        await queue.defer(session, Job.DROP, base_id)
    return len(base_ids)


async def let_go_of_stalled_jobs(database: Database, app: App) -> int:
    """End the jobs of workers that are gone; what they were about is queued anew by its row."""
    gone = list(await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=GONE_S))
    for job in gone:
        await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
    async with database.sessions.begin() as session:
        # A worker that lives on although the end of its job could not be written.
        await session.execute(_OVERDUE)
    return len(gone)


async def queue_comparisons(database: Database, *, everything: bool) -> None:
    """Queue comparing bases with the server: all of them, or those that were being changed."""
    changing = exists().where(
        KnowledgeDocument.base_id == KnowledgeBase.id, KnowledgeDocument.status.in_(UNFINISHED)
    ) | exists().where(IndexedText.base_id == KnowledgeBase.id, IndexedText.state != "indexed")
    query = select(KnowledgeBase.id).where(KnowledgeBase.state == "active")
    async with database.sessions.begin() as session:
        for base_id in (
            await session.scalars(query if everything else query.where(changing))
        ).all():
            await queue.defer(session, Job.COMPARE, base_id)


async def compare(database: Database, server: KnowledgeServer, base_id: uuid.UUID) -> None:
    """Make the server hold what the rows say, and the rows admit what the server has lost.

    Raises:
        LightRagError: as the client; the next comparison goes on.
    """
    async with database.sessions() as session:
        base = await session.get(KnowledgeBase, base_id)
        texts = (
            await session.scalars(select(IndexedText).where(IndexedText.base_id == base_id))
        ).all()
    if base is None or base.state != "active":
        return
    known = {one.file_name: one for one in texts}
    found: set[str] = set()
    surplus: list[str] = []
    async for row in server.documents(base.workspace):
        text_row = known.get(row.file_path or "")
        if text_row is None or text_row.server_id not in (None, row.id):
            surplus.append(row.id)
        else:
            found.add(text_row.file_name)
    if surplus:
        await server.remove(base.workspace, surplus)
    missing = [one for one in texts if one.state == "indexed" and one.file_name not in found]
    # A deletion under way moves later rows to pages that were read: each is asked for by itself.
    lost = [one for one in missing if not await _is_there(server, base.workspace, one)]
    await _admit_losses(database, lost)


async def _is_there(server: KnowledgeServer, workspace: str, text_row: IndexedText) -> bool:
    """Tell whether the server holds a text after all; without its insertion's id, it does not."""
    if not text_row.track_id:
        return False
    try:
        row = await server.look(workspace, text_row.file_name, text_row.track_id)
    except LightRagError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return False
    return row is not None


async def _admit_losses(database: Database, lost: list[IndexedText]) -> None:
    """Say of documents whose text the server has lost that they must be put again."""
    async with database.sessions.begin() as session:
        documents = await session.scalars(
            select(KnowledgeDocument)
            .where(KnowledgeDocument.current_text_id.in_([one.id for one in lost]))
            .with_for_update()
        )
        for document in documents.all():
            document.current_text_id = None
            if document.status == "indexed":
                give_up(
                    document,
                    Failed(Code.NOT_FOUND.value, "The knowledge server has lost it. Put it again."),
                )
