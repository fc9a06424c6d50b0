"""Documents of a base, under the caller's own ids: put, listed, looked at and deleted.

Putting never waits for indexing: the row and its job are written in the caller's transaction, or
neither is. The functions leave the commit to the caller.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.errors import Code, LightRagError, needs_extra
from dsh_lightrag.gateway import queue
from dsh_lightrag.gateway.bases import no_such_base
from dsh_lightrag.gateway.tables import (
    Content,
    DocumentStatus,
    IndexedText,
    KnowledgeBase,
    KnowledgeDocument,
    Source,
)
from dsh_lightrag.text import clean

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import func, select
    from sqlalchemy.dialects.postgresql import insert

if TYPE_CHECKING:
    import uuid
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True, slots=True)
class TextPut:
    """A text to be indexed as it is, but for characters that no text should hold."""

    text: str


@dataclass(frozen=True, slots=True)
class FilePut:
    """A file's bytes; a worker makes a text of them, by the document's name."""

    data: bytes


@dataclass(frozen=True, slots=True)
class UrlPut:
    """An address that a worker fetches; each put fetches it again."""

    url: str


@dataclass(frozen=True, slots=True)
class Put:
    """What became of a put: the document as it stands, and whether there is anything to do.

    `queued` is False when the very same content is indexed, or waits to be, already.
    """

    document: KnowledgeDocument
    queued: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """How many documents of a base are in which status."""

    pending: int = 0
    indexing: int = 0
    indexed: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.pending + self.indexing + self.indexed + self.failed


def no_such_document() -> LightRagError:
    """Return the answer for an id that the base does not hold."""
    return LightRagError(
        Code.NOT_FOUND,
        "There is no such document in this knowledge base.",
        hint="List the base's documents and call again with the id of one.",
    )


async def put_document(  # noqa: PLR0913 - what a document has
    session: AsyncSession,
    base_id: uuid.UUID,
    external_id: str,
    *,
    source: Source,
    name: str,
    content: TextPut | FilePut | UrlPut,
) -> Put:
    """Store what was put and queue its indexing, in one transaction; idempotent.

    The same content under the same id queues nothing, unless indexing it has failed. While a
    changed document is indexed, its former version goes on answering.

    Raises:
        LightRagError: `not-found`, when the base is gone.
    """
    await _hold_base(session, base_id)
    document = await _row(session, base_id, external_id, source, name)
    document.name, document.source = name, source
    document.url = content.url if isinstance(content, UrlPut) else None
    body, checksum = _stored(content)
    if checksum is not None and checksum == document.checksum and document.status != "failed":
        await session.flush()
        return Put(document, queued=False)
    document.checksum = checksum
    document.version += 1
    document.status = "pending"
    document.wanted_text_id = None  # what is being indexed is of a former version now
    document.error = document.error_code = document.retry_at = None
    document.attempts = document.deferrals = 0
    await session.flush()
    waiting = {
        "document_id": document.id,
        "version": document.version,
        "is_text": isinstance(content, TextPut),
        "file_name": name,
        "body": body,
    }
    await session.execute(
        insert(Content)
        .values(waiting)
        .on_conflict_do_update(index_elements=[Content.document_id], set_=waiting)
    )
    job = queue.Job.FETCH if isinstance(content, UrlPut) else queue.Job.INDEX
    await queue.defer(session, job, base_id, document.id)
    return Put(document, queued=True)


async def get_document(
    session: AsyncSession, base_id: uuid.UUID, external_id: str
) -> KnowledgeDocument:
    """Return one document.

    Raises:
        LightRagError: `not-found`.
    """
    document = await session.scalar(
        select(KnowledgeDocument)
        .where(KnowledgeDocument.base_id == base_id, KnowledgeDocument.external_id == external_id)
        .execution_options(populate_existing=True)
    )
    if document is None:
        raise no_such_document()
    return document


async def list_documents(
    session: AsyncSession,
    base_id: uuid.UUID,
    *,
    status: DocumentStatus | None = None,
    after: str = "",
    limit: int = 50,
) -> Sequence[KnowledgeDocument]:
    """Return documents ordered by external id, those behind `after`; status `failed` with why."""
    query = select(KnowledgeDocument).where(
        KnowledgeDocument.base_id == base_id, KnowledgeDocument.external_id > after
    )
    if status is not None:
        query = query.where(KnowledgeDocument.status == status)
    ordered = query.order_by(KnowledgeDocument.external_id).limit(limit)
    return (await session.scalars(ordered)).all()


async def delete_document(session: AsyncSession, base_id: uuid.UUID, external_id: str) -> None:
    """Forget a document, at once in every answer, and queue the removal of what only it brought.

    Raises:
        LightRagError: `not-found`.
    """
    await _hold_base(session, base_id)
    document = await get_document(session, base_id, external_id)
    await session.delete(document)
    await session.flush()
    await queue.defer(session, queue.Job.SWEEP, base_id)


async def counts(session: AsyncSession, base_id: uuid.UUID) -> Counts:
    """Return how many documents are in which status."""
    rows = await session.execute(
        select(KnowledgeDocument.status, func.count())
        .where(KnowledgeDocument.base_id == base_id)
        .group_by(KnowledgeDocument.status)
    )
    return Counts(**dict(rows.all()))


async def answers_anything(session: AsyncSession, base_id: uuid.UUID) -> bool:
    """Tell whether a base has a document that answers; one row is looked for, whatever its size."""
    current = KnowledgeDocument.current_text_id.is_not(None)
    query = select(KnowledgeDocument.id).where(KnowledgeDocument.base_id == base_id, current)
    return await session.scalar(query.limit(1)) is not None


async def current_names(
    session: AsyncSession, base_id: uuid.UUID, file_names: Collection[str] | None = None
) -> Mapping[str, Sequence[KnowledgeDocument]]:
    """Map the server's file names to the documents that they are the current version of.

    A hit whose file name is not among them is of a former version, or of a deleted document, and
    must not be shown. Documents with the same text share a file, so a name may map to several,
    oldest first. With `file_names`, only those are looked up.
    """
    query = (
        select(IndexedText.file_name, KnowledgeDocument)
        .join(KnowledgeDocument, KnowledgeDocument.current_text_id == IndexedText.id)
        .where(KnowledgeDocument.base_id == base_id)
        .order_by(KnowledgeDocument.created_at, KnowledgeDocument.id)
    )
    if file_names is not None:
        query = query.where(IndexedText.file_name.in_(file_names))
    named: dict[str, list[KnowledgeDocument]] = {}
    for file_name, document in await session.execute(query):
        named.setdefault(file_name, []).append(document)
    return named


async def _hold_base(session: AsyncSession, base_id: uuid.UUID) -> None:
    """Keep the base from being deleted until the transaction ends."""
    held = await session.scalar(
        select(KnowledgeBase.id)
        .where(KnowledgeBase.id == base_id, KnowledgeBase.state == "active")
        .with_for_update(read=True, key_share=True)
    )
    if held is None:
        raise no_such_base()


async def _row(
    session: AsyncSession, base_id: uuid.UUID, external_id: str, source: Source, name: str
) -> KnowledgeDocument:
    """Return the document's row, made if need be, and locked: a worker reads it after us."""
    made = insert(KnowledgeDocument).values(
        base_id=base_id, external_id=external_id, source=source, name=name, version=0
    )
    await session.execute(made.on_conflict_do_nothing())
    row = await session.scalars(
        select(KnowledgeDocument)
        .where(KnowledgeDocument.base_id == base_id, KnowledgeDocument.external_id == external_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return row.one()


def _stored(content: TextPut | FilePut | UrlPut) -> tuple[bytes | None, bytes | None]:
    """Return the bytes to keep and their SHA-256; of an address neither is known yet."""
    match content:
        case TextPut(text):
            body = clean(text).encode()
        case FilePut(data):
            body = data
        case UrlPut():
            return None, None
    return body, hashlib.sha256(body).digest()
