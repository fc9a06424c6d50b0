"""The embedded engine: vectors, keywords and a graph over one SQLite file, as a plain library.

with Engine.open(Path("notes.base")) as engine:
    engine.insert(Document("Marie Curie found polonium.", source="curie.txt"))
    print(engine.query("Who found polonium?").hits[0].chunk.text)
"""

from __future__ import annotations

from dsh_lightrag.errors import MissingExtraError

try:
    import numpy as np  # noqa: F401 - only to say which extra brings it
except ImportError as absent:
    raise MissingExtraError("server", "The embedded engine") from absent

from dsh_lightrag.engine.chat_extraction import ChatModel, ChatReply
from dsh_lightrag.engine.chunking import ChunkSizes
from dsh_lightrag.engine.embedders import Embedder, MiniLM, WordTable
from dsh_lightrag.engine.engine import Engine, Inserted
from dsh_lightrag.engine.faults import (
    BaseCorruptError,
    BaseLockedError,
    BaseTooNewError,
    BaseUnusableError,
    DiskFullError,
    DocumentExistsError,
    EngineError,
    ModelFaultError,
    ModelMismatchError,
    ModelUnavailableError,
    UnknownDocumentError,
)
from dsh_lightrag.engine.model import (
    Answer,
    Chunk,
    Document,
    DocumentState,
    DocumentStatus,
    Entity,
    Hit,
    Listed,
    Listing,
    Mode,
    Place,
    Placing,
    Progress,
    Relation,
    Signal,
)
from dsh_lightrag.engine.neighbourhood import Neighbourhood
from dsh_lightrag.engine.options import EngineOptions, Gate
from dsh_lightrag.engine.worker import Worker

__all__ = [
    "Answer",
    "BaseCorruptError",
    "BaseLockedError",
    "BaseTooNewError",
    "BaseUnusableError",
    "ChatModel",
    "ChatReply",
    "Chunk",
    "ChunkSizes",
    "DiskFullError",
    "Document",
    "DocumentExistsError",
    "DocumentState",
    "DocumentStatus",
    "Embedder",
    "Engine",
    "EngineError",
    "EngineOptions",
    "Entity",
    "Gate",
    "Hit",
    "Inserted",
    "Listed",
    "Listing",
    "MiniLM",
    "Mode",
    "ModelFaultError",
    "ModelMismatchError",
    "ModelUnavailableError",
    "Neighbourhood",
    "Place",
    "Placing",
    "Progress",
    "Relation",
    "Signal",
    "UnknownDocumentError",
    "WordTable",
    "Worker",
]
