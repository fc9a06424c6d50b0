"""LightRAG's HTTP API as values: its routes, what is sent and what comes back.

Verified against the real server 1.5.7 (API version 0344); SPEC.md tells how. Requests carry
LightRAG's own field names and leave out what is not set. Replies ignore fields we do not read
(newer servers add some) and every string in them is cleaned and redacted while it is parsed,
so that nothing above this module ever holds raw foreign text.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationInfo,
)
from typing_extensions import TypeAliasType

from dsh_lightrag.text import clean, clean_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Mode = Literal["local", "global", "hybrid", "naive", "mix", "bypass"]
Status = Literal[
    "pending", "parsing", "analyzing", "processing", "preprocessed", "processed", "failed"
]

API_KEY_HEADER = "X-API-Key"
WORKSPACE_HEADER = "LIGHTRAG-WORKSPACE"
NO_CONTEXT_MARK = "[no-context]"
NO_RESULTS = "no_results"
# What POST /query says, in an HTTP 200, when the server's model or embedding backend is dead.
BACKEND_FAILED = "No relevant context found for the query."
MAX_QUERY_CHARS = 65_536
MAX_SAFE_INTEGER = 2**53 - 1
PAGE_SIZES = (10, 200)
# More than any route sends: a page has 200 documents, a query 1000 chunks or entities.
MAX_ITEMS = 5_000
MAX_STATES = 1000


class Route(Enum):
    """Every request that can be made: method, path, and the status that says a write began.

    The third is None for a route that changes nothing. OPENAPI is the doctor's; no tool asks it.
    The last marks what only the gateway asks, and only of our own server. A name in braces is
    filled in by the transport.
    """

    HEALTH = ("GET", "/health", None)
    QUERY = ("POST", "/query", None)
    QUERY_DATA = ("POST", "/query/data", None)
    DOCUMENTS = ("POST", "/documents/paginated", None)
    STATUS_COUNTS = ("GET", "/documents/status_counts", None)
    OPENAPI = ("GET", "/openapi.json", None)
    INSERT = ("POST", "/documents/text", "success")
    SCAN = ("POST", "/documents/scan", "scanning_started")
    DELETE = ("DELETE", "/documents/delete_document", "deletion_started")
    TRACK = ("GET", "/documents/track_status/{name}", None, True)
    MAKE_WORKSPACE = ("PUT", "/workspaces/{name}", None, True)
    DROP_WORKSPACE = ("DELETE", "/workspaces/{name}", None, True)

    def __init__(
        self,
        method: str,
        path: str,
        begun: str | None,
        gateway: bool = False,  # noqa: FBT001, FBT002 - an enumeration's values have no names
    ) -> None:
        self.method = method
        self.path = path
        self.begun = begun
        self.gateway = gateway

    @property
    def writes(self) -> bool:
        """Whether it changes the base."""
        return self.begun is not None


# --- requests ---------------------------------------------------------------------------------


class Request(BaseModel):
    """A request body: frozen, LightRAG's field names, absent when not set."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def body(self) -> bytes:
        """Return the body as compact JSON; fields that are None are left out."""
        return self.model_dump_json(exclude_none=True).encode()


class Message(Request):
    """One turn of a conversation."""

    role: str
    content: str


class QueryRequest(Request):
    """POST /query."""

    query: str
    mode: Mode
    top_k: int
    include_references: bool = True
    include_chunk_content: bool = False
    only_need_context: bool | None = None
    stream: bool | None = None


class QueryDataRequest(Request):
    """POST /query/data: LightRAG's whole retrieval vocabulary."""

    query: str
    mode: Mode
    top_k: int | None = None
    chunk_top_k: int | None = None
    hl_keywords: list[str] | None = None
    ll_keywords: list[str] | None = None
    user_prompt: str | None = None
    enable_rerank: bool | None = None
    response_type: str | None = None
    max_total_tokens: int | None = None
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    conversation_history: list[Message] | None = None
    include_references: bool = True


class DocumentsRequest(Request):
    """POST /documents/paginated; page_size 10..200."""

    status_filter: Status | None = None
    page: int
    page_size: int
    sort_field: Literal["updated_at"] = "updated_at"
    sort_direction: Literal["desc"] = "desc"


class InsertRequest(Request):
    """POST /documents/text; the server files it under the last segment of `file_source`."""

    text: str
    file_source: str


class DeleteRequest(Request):
    """DELETE /documents/delete_document, asynchronous."""

    doc_ids: list[str]
    delete_file: Literal[False] = False
    delete_llm_cache: Literal[False] = False


# --- replies ----------------------------------------------------------------------------------


def _harmless(cleaner: Callable[[str], str]) -> Callable[[str, ValidationInfo], str]:
    """Return a validator that cleans, then redacts with the redactor of the parse."""

    def validate(value: str, info: ValidationInfo) -> str:
        return info.context(cleaner(value)) if info.context else cleaner(value)

    return validate


def _count(value: object) -> int:
    """Coerce a JSON number to a non-negative integer that every JSON reader can hold."""
    if isinstance(value, str):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004 - pydantic reads ValueError as a fault
    if isinstance(value, float) and not math.isfinite(value):  # of a huge int it would overflow
        raise ValueError("not finite")
    return max(0, min(math.floor(value), MAX_SAFE_INTEGER))


Prose = Annotated[str, AfterValidator(_harmless(clean))]
Line = Annotated[str, AfterValidator(_harmless(clean_line))]
Count = Annotated[int, BeforeValidator(_count)]
Counts = Annotated[dict[Line, Count], Field(max_length=MAX_STATES)]
T = TypeVar("T")
# The first bad item ends the parse, and so does one too many: a body of 700,000 items must
# become neither as many errors nor as many objects.
Items = TypeAliasType(
    "Items", Annotated[list[T], FailFast(), Field(max_length=MAX_ITEMS)], type_params=(T,)
)


# The fields of all replies: a fault is named by them, never by a key that a server made up.
FIELD_NAMES: set[str] = set()


class Reply(BaseModel):
    """A reply of the server: unknown fields ignored, no number that is not finite."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True, strict=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        FIELD_NAMES.update(cls.model_fields)


class Health(Reply):
    """GET /health; public, so it proves liveness and not the credentials."""

    status: Line
    core_version: Line | None = None
    api_version: Line | None = None
    auth_mode: Line | None = None
    pipeline_busy: bool | None = None
    pipeline_active: bool | None = None
    workspace_isolation: bool | None = None

    @property
    def busy(self) -> bool:
        """Whether documents are being processed, scanned or deleted, or wait for it."""
        return bool(self.pipeline_busy or self.pipeline_active)


class StatusCounts(Reply):
    """GET /documents/status_counts."""

    status_counts: Counts


def total_of(status_counts: Mapping[str, int]) -> int:
    """Return how many documents there are: the server's own sum where it gives one."""
    return status_counts.get("all", sum(status_counts.values()))


class Reference(Reply):
    """A source of an answer: one per file, with that file's chunks when asked for."""

    reference_id: Line | None = None
    file_path: Line | None = None
    content: Items[Prose] | None = None


class AnswerKind(Enum):
    """What a 200 of POST /query really is."""

    WRITTEN = "written by a language model"
    QUOTED = "passages of a server without a language model"
    NO_CONTEXT = "nothing was retrieved"
    BACKEND_FAILED = "the server's model backend failed"


class QueryReply(Reply):
    """POST /query. `llm_generated` exists since 1.5.7."""

    response: Prose
    references: Items[Reference] | None = None
    llm_generated: bool | None = None

    @property
    def kind(self) -> AnswerKind:
        """Tell the answers of LightRAG apart, without the flag by their texts alone."""
        said = self.response.strip()
        if self.llm_generated:
            return AnswerKind.WRITTEN
        if said.endswith(NO_CONTEXT_MARK):
            return AnswerKind.NO_CONTEXT
        if self.llm_generated is None:
            failed = said.casefold() == BACKEND_FAILED.casefold() and not self.references
            return AnswerKind.BACKEND_FAILED if failed else AnswerKind.WRITTEN
        return AnswerKind.QUOTED if self.references else AnswerKind.BACKEND_FAILED


class Entity(Reply):
    """A node of the graph."""

    entity_name: Line
    entity_type: Line | None = None
    description: Prose | None = None
    file_path: Line | None = None
    source_id: Line | None = None


class Relationship(Reply):
    """An edge of the graph."""

    src_id: Line
    tgt_id: Line
    description: Prose | None = None
    keywords: Line | None = None
    weight: float | None = None
    file_path: Line | None = None
    source_id: Line | None = None


class Chunk(Reply):
    """A passage; its id names the document (`<document id>-chunk-000`)."""

    content: Prose
    chunk_id: Line | None = None
    reference_id: Line | None = None
    file_path: Line | None = None


class Evidence(Reply):
    """The `data` of POST /query/data; empty when nothing was found."""

    entities: Items[Entity] = Field(default_factory=list)
    relationships: Items[Relationship] = Field(default_factory=list)
    chunks: Items[Chunk] = Field(default_factory=list)
    references: Items[Reference] = Field(default_factory=list)


class Keywords(Reply):
    """The keywords that the server searched with."""

    high_level: Items[Line] = Field(default_factory=list)
    low_level: Items[Line] = Field(default_factory=list)


class QueryMetadata(Reply):
    """The `metadata` of POST /query/data."""

    query_mode: Line | None = None
    keywords: Keywords = Field(default_factory=Keywords)
    failure_reason: Line | None = None


class QueryDataReply(Reply):
    """POST /query/data: status `failure` with reason `no_results` means nothing found."""

    status: Line
    message: Line = ""
    data: Evidence
    metadata: QueryMetadata = Field(default_factory=QueryMetadata)


class DocumentMetadata(Reply):
    """What a server tells of a document's making; `llm_tokens` is our own server's."""

    llm_tokens: Count | None = None


class Document(Reply):
    """A row of the document list."""

    id: Line
    status: Line
    file_path: Line | None = None
    chunks_count: Count | None = None
    content_length: Count | None = None
    updated_at: Line | None = None
    error_msg: Prose | None = None
    track_id: Line | None = None
    metadata: DocumentMetadata | None = None


class Pagination(Reply):
    """Where a page stands; `total_count` counts what the filter let through."""

    total_count: Count | None = None
    has_next: bool | None = None


class DocumentsReply(Reply):
    """POST /documents/paginated; `status_counts` speak of the whole base."""

    documents: Items[Document]
    pagination: Pagination = Field(default_factory=Pagination)
    status_counts: Counts = Field(default_factory=dict)


class TrackReply(Reply):
    """GET /documents/track_status/{id}: the documents of one insertion; none of an unknown id."""

    documents: Items[Document]


class WorkspaceReply(Reply):
    """PUT and DELETE /workspaces/{id}: `created` or `exists`, `dropped` or `not_found`."""

    status: Line


class Acceptance(Reply):
    """What the server says of a write: started, or refused in a 200 (`busy`)."""

    status: Line
    message: Line = ""
    track_id: Line | None = None
    doc_id: Line | None = None


class OpenApi(Reply):
    """GET /openapi.json, as far as the doctor reads it."""

    paths: dict[str, dict[str, Any]]


class ErrorFault(Reply):
    """One fault of a 422: where and what; the rejected input is never read."""

    loc: list[str | int] = Field(default_factory=list)
    msg: str = ""


class ErrorReply(Reply):
    """The body of a refusal: FastAPI's `detail`, or the `message` of /query/data."""

    detail: str | Items[ErrorFault] | None = None
    message: str | None = None
