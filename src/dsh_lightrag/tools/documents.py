"""`dsh_lightrag_documents`: which documents the base holds, and why some failed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from dsh_lightrag.bounds import Bounds, Whole
from dsh_lightrag.dispatch import Access, Args, Deps, Result, Tool
from dsh_lightrag.text import TextForm, cut
from dsh_lightrag.wire import PAGE_SIZES, Document, DocumentsReply, DocumentsRequest, Status

MAX_REASON_BYTES = 1000


def _any_case(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class DocumentsArgs(Args):
    """Which documents."""

    status: Annotated[Status, BeforeValidator(_any_case)] | None = Field(
        None,
        description="List only documents in this state, upper or lower case. processed: "
        "searchable. failed: errorMessage says why. All others: still in work. Absent: all "
        "states.",
    )
    limit: Whole | None = Field(
        None,
        description="How many to list, 1 to this deployment's maximum, normally 200; values "
        "outside are clamped. Absent: the maximum. truncated tells whether there are more.",
    )


class DocumentResult(Result):
    """A document of the base."""

    id: str = Field(description="Its id, as dsh_lightrag_delete takes it.")
    file_path: str | None = Field(description="The source it was filed under.")
    status: str = Field(description="Its state: pending, processing, processed, failed, …")
    chunks_count: int = Field(description="Chunks made so far.")
    content_length: int = Field(description="Characters of text.")
    updated_at: str | None = Field(description="When its row last changed, ISO 8601.")
    error_message: str | None = Field(description="Why it failed, where it did.")
    track_id: str | None = Field(description="The track id of the insert or scan it came with.")


class DocumentsResult(Result):
    """A listing, and the counts of the whole base."""

    documents: list[DocumentResult] = Field(description="Last changed first.")
    count: int = Field(description="How many are listed here.")
    total_count: int | None = Field(
        description="How many the filter matches; null when the server does not say."
    )
    truncated: bool = Field(description="Whether there are more than are listed.")
    status_counts: dict[str, int] = Field(description="Documents per state in the whole base.")


class _Listing:
    """Pages gathered so far: documents by id, since an index that changes repeats some."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.documents: dict[str, Document] = {}
        self.total: int | None = None
        self.counts: dict[str, int] = {}
        self.worth_asking_on = True
        self._most = 0
        self._said_more = False

    def add(self, page: DocumentsReply, page_size: int) -> None:
        """Take a page; `worth_asking_on` tells whether another could bring anything new."""
        before = len(self.documents)
        self.documents.update((document.id, document) for document in page.documents)
        self.total = page.pagination.total_count
        self._most = max(self._most, self.total or 0)
        self.counts = dict(page.status_counts) or self.counts
        has_next = page.pagination.has_next
        self._said_more = len(page.documents) >= page_size if has_next is None else has_next
        self.worth_asking_on = self._said_more and len(self.documents) > before

    @property
    def truncated(self) -> bool:
        """Whether there are documents that are not listed, as far as any page told.

        The largest total counts: rows that a shrinking index shifted into pages already read
        are missing here.
        """
        if len(self.documents) > self.limit:
            return True
        return self._said_more if self.total is None else len(self.documents) < self._most


async def run(args: DocumentsArgs, deps: Deps) -> DocumentsResult:
    """Read pages until the limit, within the call's one budget."""
    most = deps.settings.documents.max_listed
    limit = Bounds(default=most, low=1, high=most).clamp(args.limit)
    page_size = max(PAGE_SIZES[0], min(limit, PAGE_SIZES[1]))
    listing = _Listing(limit)
    page = 1
    while listing.worth_asking_on and len(listing.documents) < limit:
        request = DocumentsRequest(status_filter=args.status, page=page, page_size=page_size)
        listing.add(await deps.client.documents(request), page_size)
        page += 1
    documents = [_listed(document) for document in list(listing.documents.values())[:limit]]
    return DocumentsResult(
        documents=documents,
        count=len(documents),
        total_count=listing.total,
        truncated=listing.truncated,
        status_counts=listing.counts,
    )


def _listed(document: Document) -> DocumentResult:
    reason = cut((document.error_msg or "").strip(), MAX_REASON_BYTES).text
    return DocumentResult(
        id=document.id,
        file_path=document.file_path,
        status=document.status,
        chunks_count=document.chunks_count or 0,
        content_length=document.content_length or 0,
        updated_at=document.updated_at,
        error_message=reason or None,
        track_id=document.track_id,
    )


def show(result: DocumentsResult) -> TextForm:
    """One line per document, then the counts."""
    known = "an unknown number" if result.total_count is None else str(result.total_count)
    counts = ", ".join(f"{state} {count}" for state, count in result.status_counts.items())
    return TextForm(
        summary=f"{result.count} of {known} document(s).",
        data="\n".join([*map(_line, result.documents), f"whole base: {counts or 'no counts'}"]),
        advice=_more(result) if result.truncated else "",
        narrower="Lower limit, or filter by status.",
    )


def _more(result: DocumentsResult) -> str:
    if result.total_count is not None and result.count >= result.total_count:
        return "The index changed while it was read, so some may be missing: list again."
    return "There are more: raise limit, or filter by status."


def _line(document: DocumentResult) -> str:
    line = (
        f"{document.status} {document.file_path or 'unknown source'} id={document.id} "
        f"chunks={document.chunks_count} updated={document.updated_at or 'unknown'}"
    )
    if document.error_message is not None:
        return f"{line} reason: {' '.join(document.error_message.split())}"
    return line


TOOL = Tool(
    name="dsh_lightrag_documents",
    title="List documents",
    summary=(
        "List the documents of the knowledge base, last changed first, each with id, source "
        "name, state, size and, where it failed, the reason. Use it to see what can be asked "
        "about, to find the id that dsh_lightrag_delete (where offered) takes, or to follow "
        "an insert or a scan by its trackId. Use dsh_lightrag_query to read what documents "
        "say, dsh_lightrag_status for health and counts alone. Read-only and quick: one "
        "request per 200 documents, no language-model call. Returns documents, count, "
        "totalCount (that the filter matches), statusCounts (of the whole base) and "
        "truncated; there is no next page beyond limit, so narrow by status."
    ),
    access=Access.READ,
    args=DocumentsArgs,
    result=DocumentsResult,
    run=run,
    show=show,
)
