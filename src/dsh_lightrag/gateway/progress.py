"""How indexing a document goes, written into its row; the only place that changes its status.

Every change holds for the version that the job began with: what was put since is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dsh_lightrag.errors import Code, needs_extra
from dsh_lightrag.gateway import queue, spending
from dsh_lightrag.gateway.outcomes import Failed, Waits, backoff_s
from dsh_lightrag.gateway.tables import (
    MAX_ERROR,
    Content,
    IndexedText,
    KnowledgeBase,
    KnowledgeDocument,
)

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import delete, select

if TYPE_CHECKING:
    import uuid

    from sqlalchemy.ext.asyncio import AsyncSession

    from dsh_lightrag.gateway.database import Database

# How often indexing is tried before the document is given up.
MAX_ATTEMPTS = 5
# How soon a text is looked at again that the server is still working on.
WATCH_AGAIN_S = 2.0
# The longest wait that anybody else may ask for: a Retry-After can name any year.
LONGEST_WAIT_S = 3600.0
UNFINISHED = ("pending", "indexing")


@dataclass(frozen=True, slots=True)
class Work:
    """A document to be indexed, as its job found it."""

    document_id: uuid.UUID
    base_id: uuid.UUID
    workspace: str
    version: int
    file_name: str
    is_text: bool
    body: bytes


async def begin(database: Database, document_id: uuid.UUID) -> Work | None:
    """Say that a document is looked at and return what is to be done; None when nothing is."""
    async with database.sessions.begin() as session:
        document = await session.get(KnowledgeDocument, document_id, with_for_update=True)
        if document is None or document.status not in UNFINISHED:
            return None
        base = await session.get_one(KnowledgeBase, document.base_id)
        content = await session.get(Content, document_id)
        if base.state != "active":
            return None
        document.retry_at = None
        if content is None:
            give_up(document, Failed(Code.SERVER_ERROR.value, "Its content is gone. Put it again."))
            return None
        if content.body is None:
            await queue.defer(session, queue.Job.FETCH, base.id, document_id)
            return None
        document.status = "indexing"
        return Work(
            document_id,
            base.id,
            base.workspace,
            document.version,
            content.file_name,
            content.is_text,
            content.body,
        )


async def end(database: Database, work: Work, outcome: Failed | Waits) -> None:
    """Write an outcome of either kind."""
    if isinstance(outcome, Failed):
        await fail(database, work, outcome)
    else:
        await wait(database, work, outcome)


async def fail(database: Database, work: Work, failed: Failed) -> None:
    """Give the document up; its former version, if there is one, goes on answering."""
    async with database.sessions.begin() as session:
        document = await _still(session, work)
        if document is not None:
            give_up(document, failed)
            await session.execute(delete(Content).where(Content.document_id == document.id))


async def wait(database: Database, work: Work, waits: Waits) -> None:
    """Let the document wait, visibly; after too many attempts, give it up."""
    async with database.sessions.begin() as session:
        document = await _still(session, work)
        if document is None:
            return
        times = document.attempts if waits.attempt else document.deferrals
        if waits.attempt:
            document.attempts += 1
        if document.attempts >= MAX_ATTEMPTS:
            give_up(document, Failed(waits.code, waits.message))
            await session.execute(delete(Content).where(Content.document_id == document.id))
            return
        after_s = waits.after_s
        if after_s is None:
            after_s = backoff_s(times, tried=waits.attempt)
        after_s = min(after_s, LONGEST_WAIT_S)
        document.deferrals += 1
        document.status = "pending"
        document.error_code, document.error = waits.code, waits.message[:MAX_ERROR]
        document.retry_at = datetime.now(UTC) + timedelta(seconds=after_s)


async def watch_later(database: Database, work: Work, trouble: str) -> None:
    """Look again soon: the server has begun; what troubles it is shown meanwhile."""
    async with database.sessions.begin() as session:
        document = await _still(session, work)
        if document is not None:
            document.error = trouble[:MAX_ERROR] or None
            document.error_code = Code.SERVER_ERROR.value if trouble else None
            document.deferrals = 0
            document.retry_at = datetime.now(UTC) + timedelta(seconds=WATCH_AGAIN_S)


async def indexed(
    database: Database, work: Work, text_id: uuid.UUID, server_id: str, counted: int | None
) -> None:
    """Let a text answer for every document that waits for it, and settle what it cost."""
    async with database.sessions.begin() as session:
        text = await session.get_one(IndexedText, text_id, with_for_update=True)
        text.state, text.server_id = "indexed", server_id
        cost = await spending.settle(session, text, counted)
        for document in await _waiting_for(session, text_id):
            _answer(document)
            if document.id == work.document_id:
                document.tokens_spent += cost
                document.tokens_counted = counted is not None
            await session.execute(delete(Content).where(Content.document_id == document.id))


async def answer(database: Database, work: Work, text_id: uuid.UUID) -> None:
    """Let a document answer with a text that is indexed already."""
    async with database.sessions.begin() as session:
        document = await _still(session, work)
        if document is not None and document.wanted_text_id == text_id:
            _answer(document)
            await session.execute(delete(Content).where(Content.document_id == document.id))


async def refused(
    database: Database, text_id: uuid.UUID, server_id: str, counted: int | None
) -> None:
    """Note that the server failed to index a text; what it cost is spent nevertheless."""
    async with database.sessions.begin() as session:
        text = await session.get_one(IndexedText, text_id, with_for_update=True)
        text.state, text.server_id = "failed", server_id
        await spending.settle(session, text, counted)


def _answer(document: KnowledgeDocument) -> None:
    document.current_text_id = document.wanted_text_id
    document.status = "indexed"
    document.error = document.error_code = document.retry_at = None
    document.attempts = document.deferrals = 0


def give_up(document: KnowledgeDocument, failed: Failed) -> None:
    """Say why a document cannot be indexed; a former version goes on answering."""
    document.status = "failed"
    document.wanted_text_id = document.current_text_id
    document.retry_at = None
    document.error_code, document.error = failed.code, failed.message[:MAX_ERROR]


async def _still(session: AsyncSession, work: Work) -> KnowledgeDocument | None:
    """Return the document, locked, if it is still what the job began with."""
    document = await session.get(KnowledgeDocument, work.document_id, with_for_update=True)
    unfinished = document is not None and document.status in UNFINISHED
    return document if unfinished and document and document.version == work.version else None


async def _waiting_for(session: AsyncSession, text_id: uuid.UUID) -> list[KnowledgeDocument]:
    rows = await session.scalars(
        select(KnowledgeDocument)
        .where(
            KnowledgeDocument.wanted_text_id == text_id, KnowledgeDocument.status.in_(UNFINISHED)
        )
        .order_by(KnowledgeDocument.id)
        .with_for_update()
    )
    return list(rows)
