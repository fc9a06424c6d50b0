"""What serves a workspace: the protocol that the routes speak, and its values.

`Keeper` makes, opens and drops workspaces; `Backend` is one open workspace. There are two pairs:
`embedded/` over our own engine and `core/` over LightRAG's. The routes know neither. A backend is
used on one event loop; what blocks it hands to a thread itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from datetime import datetime

Mode = Literal["local", "global", "hybrid", "naive", "mix", "bypass"]
Status = Literal[
    "pending", "parsing", "analyzing", "processing", "preprocessed", "processed", "failed"
]
SortField = Literal["created_at", "updated_at", "id", "file_path"]


# --- asking -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, checked: LightRAG's fields with LightRAG's defaults."""

    query: str
    mode: Mode = "mix"
    top_k: int = 40
    chunk_top_k: int = 20
    max_entity_tokens: int = 6000
    max_relation_tokens: int = 8000
    max_total_tokens: int = 30000
    response_type: str = "Multiple Paragraphs"
    user_prompt: str = ""
    hl_keywords: tuple[str, ...] = ()
    ll_keywords: tuple[str, ...] = ()
    history: tuple[Turn, ...] = ()
    enable_rerank: bool = True
    only_need_context: bool = False
    only_need_prompt: bool = False


@dataclass(frozen=True, slots=True)
class EntityFound:
    """An entity among the evidence; `source_id` holds chunk ids joined by `<SEP>`."""

    entity_name: str
    entity_type: str
    description: str
    source_id: str
    file_path: str
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class RelationFound:
    """A relation among the evidence."""

    src_id: str
    tgt_id: str
    description: str
    keywords: str
    weight: float
    source_id: str
    file_path: str
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class ChunkFound:
    """A passage; its id begins with its document's id (`doc-…-chunk-000`)."""

    reference_id: str
    content: str
    file_path: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class ReferenceFound:
    """A file among the evidence; one per file, `content` its chunks in the answer's order."""

    reference_id: str
    file_path: str
    content: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that retrieval found; empty lists when it found nothing."""

    entities: tuple[EntityFound, ...] = ()
    relations: tuple[RelationFound, ...] = ()
    chunks: tuple[ChunkFound, ...] = ()
    references: tuple[ReferenceFound, ...] = ()
    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()
    processing_info: Mapping[str, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing was found."""
        return not (self.entities or self.relations or self.chunks)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gets: a text, whole or as it is written, and the files it rests on.

    Context and answer come from one retrieval: `references` are those of the very evidence that
    the text was made from.
    """

    text: str | AsyncGenerator[str]
    llm_generated: bool
    references: tuple[ReferenceFound, ...] = ()


# --- documents --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A text to be filed under its source's last path segment."""

    text: str
    file_source: str


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A row of the document list, in LightRAG's fields."""

    id: str
    file_path: str
    status: Status
    content_summary: str
    content_length: int
    created_at: datetime
    updated_at: datetime
    track_id: str = ""
    chunks_count: int | None = None
    error_msg: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageWanted:
    """Which part of the document list is wanted; no statuses means all of them."""

    page: int = 1
    page_size: int = 50
    statuses: tuple[Status, ...] = ()
    sort_field: SortField = "updated_at"
    descending: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the document list, how many rows the filter lets through, and counts of all."""

    rows: tuple[DocumentRow, ...]
    total: int
    counts: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class PipelineState:
    """What the workspace is busy with; messages name documents, never paths or tracebacks."""

    busy: bool = False
    deleting: bool = False
    job_name: str = "-"
    job_start: datetime | None = None
    docs: int = 0
    batchs: int = 0
    cur_batch: int = 0
    latest_message: str = ""
    history_messages: tuple[str, ...] = ()
    pending_enqueues: int = 0


# --- graph ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """An entity as a node."""

    id: str
    entity_type: str
    description: str
    source_id: str
    file_path: str
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation as an edge between node ids."""

    source: str
    target: str
    weight: float
    description: str
    keywords: str
    source_id: str
    file_path: str
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Nodes and edges around a label; empty when there is no such label."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    is_truncated: bool = False


# --- faults -----------------------------------------------------------------------------------


class BackendError(Exception):
    """A backend that cannot do what was asked; `problem` may be shown to a client.

    BackendError
    ├── ModelMissingError      the question needs a chat model and none is configured
    ├── ModelFailedError       a chat or embedding model failed, or its answer was cut short
    ├── NameTakenError         the source's name or the text is stored already
    ├── BusyError              a clearing or deletion holds the workspace
    ├── UnknownDocumentsError  ids that are not in the workspace
    ├── WorkspaceUnknownError  no such workspace
    ├── WorkspaceLockedError   another process has the workspace open
    ├── DiskFullError          there is no room left for what is to be stored
    └── WorkspaceBrokenError   the workspace cannot be opened: damaged, too new, another model
    """

    def __init__(self, problem: str, mend: str = "") -> None:
        super().__init__(problem, mend)
        self.problem = problem
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.problem} {self.mend}".strip()


class ModelMissingError(BackendError):
    """The question needs a chat model and none is configured."""


class ModelFailedError(BackendError):
    """A chat or embedding model failed, or its answer was cut short."""


class NameTakenError(BackendError):
    """The source's name or the text is stored already."""


# In LightRAG's words: its clients tell by them that waiting helps.
BUSY = "Pipeline is busy with another operation."
DELETING = (
    "Pipeline is clearing or deleting documents. Wait for the running job to finish before "
    "submitting new work."
)


class BusyError(BackendError):
    """A clearing or a deletion holds the workspace."""


class UnknownDocumentsError(BackendError):
    """Some of the ids are not in the workspace; none of the others was touched."""


class WorkspaceUnknownError(BackendError):
    """There is no such workspace, and reading never makes one."""


class WorkspaceLockedError(BackendError):
    """Another process has the workspace open for writing."""


class DiskFullError(BackendError):
    """There is no room left for what is to be stored; nothing of it was."""


class WorkspaceBrokenError(BackendError):
    """The workspace cannot be opened; it was left as it is."""


# --- protocols --------------------------------------------------------------------------------


class Backend(Protocol):
    """One open workspace. Whoever opened it closes it, when nobody uses it any more."""

    async def evidence(self, ask: Ask) -> Evidence:
        """Retrieve; raises `ModelFailedError`, never returns an empty list for a failure."""
        ...

    async def answer(self, ask: Ask, *, stream: bool) -> Answer:
        """Answer; raises `ModelMissingError` or `ModelFailedError`.

        A stream that a model cuts short raises `ModelFailedError` while it is read.
        """
        ...

    async def insert(self, documents: Sequence[NewDocument], track_id: str) -> None:
        """File documents, all or none; processing goes on in the background.

        Raises `NameTakenError` or `BusyError`. What was filed when this returns is durable.
        """
        ...

    async def record_failure(self, file_source: str, reason: str, track_id: str) -> None:
        """File a document that could not be read, as a failed row with its reason."""
        ...

    async def page(self, wanted: PageWanted) -> Page:
        """Return a part of the document list."""
        ...

    async def tracked(self, track_id: str) -> Sequence[DocumentRow]:
        """Return the documents of one insertion."""
        ...

    async def named(self, file_name: str) -> DocumentRow | None:
        """Return the document filed under a canonical name, or None."""
        ...

    async def delete(self, ids: Sequence[str]) -> None:
        """Begin to delete documents; raises `UnknownDocumentsError` or `BusyError`."""
        ...

    async def clear(self) -> int:
        """Delete every document and return how many; raises `BusyError`."""
        ...

    async def clear_cache(self) -> None:
        """Forget cached model answers, where there are any."""
        ...

    async def retry_failed(self, track_id: str) -> int:
        """Let failed and unfinished documents be processed again; return how many."""
        ...

    async def pipeline(self) -> PipelineState:
        """Tell what the workspace is busy with."""
        ...

    async def labels(self) -> Sequence[str]:
        """Return every entity's name, sorted."""
        ...

    async def popular_labels(self, limit: int) -> Sequence[str]:
        """Return the names with the most relations."""
        ...

    async def search_labels(self, text: str, limit: int) -> Sequence[str]:
        """Return names that contain a text, whatever its case."""
        ...

    async def subgraph(self, label: str, depth: int, most: int) -> Subgraph:
        """Return what lies around a name; `*` means the whole graph, cut at `most` nodes."""
        ...

    async def has_entity(self, name: str) -> bool:
        """Tell whether there is an entity of exactly this name."""
        ...

    async def close(self) -> None:
        """Stop what runs in the background and let go of the workspace; nothing is lost."""
        ...


class Keeper(Protocol):
    """Makes, opens and drops workspaces of one kind.

    Attributes:
        kind: `embedded` or `lightrag`.
        answers: whether a chat model is configured.
    """

    @property
    def kind(self) -> str:
        """Return the kind's name."""
        ...

    @property
    def answers(self) -> bool:
        """Tell whether a chat model is configured."""
        ...

    def configuration(self) -> Mapping[str, object]:
        """Return what GET /health may tell of models and storages; no secrets, no paths."""
        ...

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        ...

    async def exists(self, workspace: str) -> bool:
        """Tell whether there is such a workspace, without opening it."""
        ...

    async def create(self, workspace: str) -> bool:
        """Make an empty workspace, durable when this returns; False when it was there."""
        ...

    async def open(self, workspace: str) -> Backend:
        """Open a workspace that exists; raises `WorkspaceUnknownError`, `…Locked…`, `…Broken…`."""
        ...

    async def drop(self, workspace: str) -> bool:
        """Remove a closed workspace without residue; False when there was none."""
        ...

    async def close(self) -> None:
        """Let go of what all workspaces share."""
        ...
