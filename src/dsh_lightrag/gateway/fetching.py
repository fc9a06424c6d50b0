"""Fetching what was put by its address, before it is indexed like a file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from dsh_lightrag.convert.plain import known_encoding
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway import progress, queue
from dsh_lightrag.gateway.outcomes import LASTING, Failed, Waits
from dsh_lightrag.gateway.tables import Content, KnowledgeBase, KnowledgeDocument
from dsh_lightrag.logs import frames_of, get_logger

if TYPE_CHECKING:
    import uuid
    from collections.abc import Awaitable, Callable

    from dsh_lightrag.gateway.database import Database

# What waiting cannot mend, besides what is wrong with any request.
_LASTING = LASTING | {Code.NOT_FOUND, Code.FORBIDDEN, Code.UNAUTHORIZED}
# The suffix that tells the converter what a fetched body is; text where nothing better is known.
SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".xhtml",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}


class Fetched(Protocol):
    """What a URL held: its bytes, media type, and what the server said of its characters."""

    @property
    def data(self) -> bytes:
        """The body."""
        ...

    @property
    def media_type(self) -> str:
        """Lower case, without parameters."""
        ...

    @property
    def charset(self) -> str:
        """The charset that the server named, or nothing."""
        ...


if TYPE_CHECKING:
    Fetch = Callable[[str], Awaitable[Fetched]]


async def fetch_document(database: Database, fetch: Fetch, document_id: uuid.UUID) -> None:
    """Fetch a document's address and queue its indexing; how it ends stands in its row.

    Raises only what the database does.
    """
    async with database.sessions() as session:
        document = await session.get(KnowledgeDocument, document_id)
        content = await session.get(Content, document_id)
        base = await session.get(KnowledgeBase, document.base_id) if document else None
    if document is None or document.status not in progress.UNFINISHED or document.url is None:
        return
    if content is None or content.body is not None or base is None or base.state != "active":
        return
    work = progress.Work(
        document_id=document_id,
        base_id=base.id,
        workspace=base.workspace,
        version=document.version,
        file_name=content.file_name,
        is_text=False,
        body=b"",
    )
    try:
        fetched = await fetch(document.url)
    except LightRagError as error:
        await progress.end(database, work, _outcome(error))
        return
    except Exception as error:  # noqa: BLE001 - a bug: tried a few times, not at once for ever
        get_logger().warning("fetching_broke", error=type(error).__name__, frames=frames_of(error))
        message = "The gateway failed; the operator finds more in its log."
        await progress.wait(database, work, Waits(Code.SERVER_ERROR.value, message, attempt=True))
        return
    await _keep(database, work, fetched)


def _outcome(error: LightRagError) -> Failed | Waits:
    if error.code in _LASTING:
        return Failed(error.code.value, error.message)
    return Waits(error.code.value, error.message, after_s=error.retry_after_s, attempt=True)


async def _keep(database: Database, work: progress.Work, fetched: Fetched) -> None:
    """Store what was fetched, unless something else was put meanwhile."""
    async with database.sessions.begin() as session:
        document = await session.get(KnowledgeDocument, work.document_id, with_for_update=True)
        content = await session.get(Content, work.document_id)
        if document is None or content is None or document.version != work.version:
            return
        document.checksum = hashlib.sha256(fetched.data).digest()
        content.body = _as_utf8(fetched)
        content.file_name = f"page{SUFFIXES.get(fetched.media_type, '.txt')}"
        document.retry_at = None
        await queue.defer(session, queue.Job.INDEX, work.base_id, work.document_id)


def _as_utf8(fetched: Fetched) -> bytes:
    """Return a text in UTF-8 where the server names another charset that is known."""
    encoding = known_encoding(fetched.charset)
    if encoding is None or not fetched.media_type.startswith("text/"):
        return fetched.data
    return fetched.data.decode(encoding, "replace").encode()
