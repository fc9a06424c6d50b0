"""Documents on their way into the engine, and its rows on their way out, in LightRAG's fields."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dsh_lightrag.engine import Document, DocumentStatus, Listing
from dsh_lightrag.server.backend import DocumentRow
from dsh_lightrag.server.embedded.identity import canonical_name, document_id

if TYPE_CHECKING:
    from typing import Literal

    from dsh_lightrag.engine import DocumentState
    from dsh_lightrag.server.backend import NewDocument, PageWanted, SortField, Status

_TITLE = re.compile(r"\s*#[ \t]+(\S[^\n]{0,199})")
_WORD = re.compile(r"[^\W_]+")
_ORDERS: dict[SortField, Literal["created_at", "updated_at", "id", "source"]] = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "id": "id",
    "file_path": "source",
}
_STATUSES: dict[DocumentStatus, Status] = {
    DocumentStatus.PENDING: "pending",
    DocumentStatus.PROCESSING: "processing",
    DocumentStatus.PROCESSED: "processed",
    DocumentStatus.FAILED: "failed",
}
_DUPLICATE = "Identical content already exists under another filename. Original doc_id: "


def to_engine(document: NewDocument, track: str) -> Document:
    """Return a document as the engine files it."""
    name = canonical_name(document.file_source)
    return Document(
        text=document.text,
        source=name,
        title=title_of(document.text, name),
        id=document_id(name),
        track=track,
    )


def title_of(text: str, name: str) -> str:
    """Return the first heading if the text begins with it, else a file name of several words."""
    heading = _TITLE.match(text)
    if heading:
        return heading[1].rstrip(" #\t")
    words = _WORD.findall(name.rpartition(".")[0])
    return " ".join(words) if len(words) > 1 else ""


def to_listing(wanted: PageWanted) -> Listing:
    """Return which part of the engine's list is a page; LightRAG's other statuses have none."""
    backwards = {status: ours for ours, status in _STATUSES.items()}
    return Listing(
        statuses=tuple(backwards[status] for status in wanted.statuses if status in backwards),
        order=_ORDERS[wanted.sort_field],
        descending=wanted.descending,
        offset=(wanted.page - 1) * wanted.page_size,
        limit=wanted.page_size,
    )


def to_status(status: DocumentStatus) -> Status:
    """Return LightRAG's name of a status."""
    return _STATUSES[status]


def to_row(state: DocumentState) -> DocumentRow:
    """Return a row of the engine's list in LightRAG's fields."""
    return DocumentRow(
        id=state.id,
        file_path=state.source,
        status=to_status(state.status),
        content_summary=state.summary,
        content_length=state.length,
        created_at=datetime.fromtimestamp(state.created_at, UTC),
        updated_at=datetime.fromtimestamp(state.updated_at, UTC),
        track_id=state.track,
        chunks_count=state.chunks,
        error_msg=f"{_DUPLICATE}{state.original}" if state.original else state.error or None,
        metadata=_metadata(state),
    )


def _metadata(state: DocumentState) -> dict[str, object]:
    if state.original:
        return {
            "is_duplicate": True,
            "duplicate_kind": "content_hash",
            "original_doc_id": state.original,
            "original_track_id": state.original_track,
        }
    if not state.chunks and state.status is DocumentStatus.FAILED:
        return {"error_type": "file_extraction_error", "error_stage": "parse"}
    return {
        "llm_tokens": state.tokens_spent,
        "chunks_embedded": state.embedded,
        "chunks_extracted": state.extracted,
    }
