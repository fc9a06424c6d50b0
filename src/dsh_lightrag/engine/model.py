"""What a knowledge base holds and what a question gets back, as frozen values.

Ids are stable: the same text under the same document has the same chunk id wherever and whenever
it is inserted, and an entity's id depends on nothing but its name without case and punctuation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Mode(StrEnum):
    """How a question is answered, by LightRAG's names."""

    NAIVE = "naive"
    LOCAL = "local"
    GLOBAL = "global"
    HYBRID = "hybrid"
    MIX = "mix"
    BYPASS = "bypass"


class Signal(StrEnum):
    """One way of ranking chunks for a question; the last three come from the graph."""

    VECTORS = "vectors"
    KEYWORDS = "keywords"
    ENTITIES = "entities"
    RELATIONS = "relations"
    CONTEXT = "context"


class DocumentStatus(StrEnum):
    """How far a document has come; `PROCESSED` means that every index has all of it."""

    PENDING = "pending"
    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Document:
    """A text to insert.

    Attributes:
        text: the text; control characters in it are replaced when it is stored.
        source: where it came from, shown with every answer.
        title: its name, an entity of its own; empty when it has none.
        id: chosen by the caller, or derived from the text when empty.
        track: names the insertion that it belongs to.
    """

    text: str
    source: str = ""
    title: str = ""
    id: str = ""
    track: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `document.text[start:end]`, and the headings above it."""

    id: str
    document_id: str
    source: str
    title: str
    ordinal: int
    start: int
    end: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Entity:
    """A name that the documents speak of, merged over all of them."""

    id: str
    name: str
    type: str
    description: str
    chunk_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Two entities that belong together, merged over all documents; weight 0..1."""

    source: str
    target: str
    description: str
    keywords: str
    weight: float
    chunk_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placing:
    """Where one signal ranked a chunk, and what that was worth in the fusion."""

    rank: int
    score: float
    share: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that answers a question, with the reason why it is here.

    Attributes:
        chunk: the passage.
        score: the fused score; comparable within one answer only.
        placings: rank, own score and share of every signal that found it.
        seeds: names in the question that led here through the graph.
        via: names in this chunk that join it to the seeds, the strongest first.
    """

    chunk: Chunk
    score: float
    placings: dict[Signal, Placing]
    seeds: tuple[str, ...] = ()
    via: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What retrieval found for one question.

    Attributes:
        hits: the passages, best first.
        entities: the entities of the question and of the best passages.
        relations: how these entities belong together.
        gate: 0..1, how much the graph had to say; 0 leaves the other signals as they were.
        pending: chunks that some index does not have yet, so that this answer may miss them.
        faults: signals that failed, each with its reason; the others answered without them.
    """

    hits: tuple[Hit, ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    gate: float = 0.0
    pending: int = 0
    faults: dict[Signal, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentState:
    """One row of the list of documents.

    Attributes:
        original: the document that has this text, if this one was refused for that reason.
        original_track: the insertion that the original came with.
    """

    id: str
    source: str
    title: str
    status: DocumentStatus
    created_at: float
    updated_at: float
    length: int
    chunks: int
    embedded: int
    extracted: int
    summary: str
    error: str = ""
    tokens_spent: int = 0
    track: str = ""
    original: str = ""
    original_track: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which part of the list of documents is wanted; no statuses means all of them."""

    statuses: tuple[DocumentStatus, ...] = ()
    order: Literal["created_at", "updated_at", "id", "source"] = "updated_at"
    descending: bool = True
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of the list, how many documents the filter lets through, and counts of them all."""

    states: tuple[DocumentState, ...]
    total: int
    counts: dict[DocumentStatus, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk stands: its document, and the how manieth of its chunks it is."""

    document_id: str
    source: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the indexes are: chunks in all, those missing from each, and those given up."""

    chunks: int
    to_embed: int
    to_extract: int
    failed: int = 0

    @property
    def pending(self) -> int:
        """Return the chunks that some index still lacks."""
        return max(self.to_embed, self.to_extract)


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk before it is stored: the slice, its tokens and the headings above it."""

    start: int
    end: int
    tokens: int
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """An entity as one chunk tells it; `certain` when its spelling need not prove it a name."""

    name: str
    type: str = "OTHER"
    description: str = ""
    count: int = 1
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A relation as one chunk tells it; the weight is clamped to 0..1 when it is stored."""

    source: str
    target: str
    description: str = ""
    keywords: str = ""
    weight: float = 0.5


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor found in one chunk, and the model tokens it took."""

    entities: tuple[Found, ...] = ()
    relations: tuple[Link, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """What every retriever returns: numbers of chunks, best first, with its own scores."""

    chunks: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()


def document_id(text: str) -> str:
    """Return the id of a text that came without one."""
    return f"doc-{_digest(text)}"


def chunk_id(document: str, text: str, occurrence: int) -> str:
    """Return a chunk's id; `occurrence` tells equal chunks of one document apart."""
    return f"chunk-{_digest(document, text, str(occurrence))}"


def entity_id(key: str) -> str:
    """Return an entity's id from its key (see `names.key`)."""
    return f"ent-{_digest(key)}"


def _digest(*parts: str) -> str:
    """Return 32 hexadecimal digits that depend on every part and on where it ends."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
