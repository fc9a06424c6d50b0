"""A knowledge base that answers with passages: insert, delete, ask.

engine = Engine.open(Path("notes.base"), embedder=MiniLM())
engine.insert(Document("Marie Curie found polonium.", source="curie.txt"))
engine.catch_up()
for hit in engine.query("Who found polonium?").hits:
    print(hit.score, hit.chunk.text)

Inserted text is found at once by its words and names; vectors, and what a chat model tells, follow
when `catch_up` or a worker gives them time. Every method may be called from any thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dsh_lightrag.engine import (
    catchup,
    filing,
    listing,
    neighbourhood,
    reading,
    rebuilding,
    verifying,
    writing,
)
from dsh_lightrag.engine.change import Change, note
from dsh_lightrag.engine.faults import DocumentExistsError, ModelMismatchError, UnknownDocumentError
from dsh_lightrag.engine.indexes import Indexes
from dsh_lightrag.engine.model import (
    Answer,
    Document,
    DocumentState,
    Listed,
    Listing,
    Mode,
    Place,
    Progress,
)
from dsh_lightrag.engine.options import EngineOptions
from dsh_lightrag.engine.outside import copy_base
from dsh_lightrag.engine.retrieval import Retrieval
from dsh_lightrag.engine.store import Store

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from dsh_lightrag.engine.chat_extraction import ChatModel
    from dsh_lightrag.engine.embedders import Embedder
    from dsh_lightrag.engine.neighbourhood import Neighbourhood

_STEP = 32  # chunks embedded in one durable step
DEFAULT_OPTIONS = EngineOptions()


@dataclass(frozen=True, slots=True)
class Inserted:
    """The id under which a document is stored, and whether it was not there before."""

    document_id: str
    fresh: bool


class Engine:
    """An open base. Use `Engine.open`; whoever opens it closes it."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        chat: ChatModel | None,
        options: EngineOptions,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._chat = chat
        self._options = options
        self._applying = threading.Lock()
        self._work = threading.Event()
        self._indexes = Indexes(store, embedder.dimension if embedder else None)
        self._retrieval = Retrieval(store, self._indexes, embedder, options)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        embedder: Embedder | None = None,
        chat: ChatModel | None = None,
        options: EngineOptions = DEFAULT_OPTIONS,
        reindex: bool = False,
    ) -> Engine:
        """Open a base, or make an empty one.

        Args:
            path: the base's file; locks and logs stand beside it.
            embedder: the embedding model, or None to do without vectors.
            chat: the chat model that reads chunks for the graph, or None for the local extractor.
            options: sizes and weights.
            reindex: drop the vectors of another model, and let documents that other rules cut be
                cut again; `catch_up` or a worker makes them anew.
        """
        identity = _identity(embedder)
        store = Store(path, rebuilding.versions() | {"embedder": identity})
        try:
            with store.read() as connection:
                meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
            if not reindex:
                _refuse_other_model(path, meta["embedder"], identity)
            with store.write() as connection:
                rebuilding.bring_up_to_date(connection, meta, identity)
                if reindex:
                    rebuilding.mark_outdated(connection, writing.rules_of(options.chunks))
            return cls(store, embedder, chat, options)
        except BaseException:  # whatever keeps it from opening, the file is let go
            store.close()
            raise

    def break_off(self) -> None:
        """Let whoever is writing fail soon, in whatever thread, and be undone; `close` follows."""
        self._store.break_off()

    def close(self) -> None:
        """Close the base; what was acknowledged is in its file."""
        try:
            self._store.last_word()
            self._indexes.save()
        finally:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing ------------------------------------------------------------------------------

    def insert(self, document: Document) -> Inserted:
        """Store a document; durable when this returns.

        The same text under the same id is left as it is; another text under a stored id is
        refused, for replacing is another method.
        """
        prepared = self._prepared(document)
        stored = prepared.document
        with self._changing() as (connection, change):
            before = reading.document_text(connection, stored.id)
            if before is None:
                change.add(writing.insert(connection, prepared, self._indexes.titles, time.time()))
            elif before != stored.text:
                raise DocumentExistsError(
                    f"There is another text under the id {stored.id}.",
                    "Replace the document, or insert the text under another id.",
                )
        return Inserted(stored.id, fresh=before is None)

    def replace(self, document: Document) -> Inserted:
        """Store a document in place of the one with its id, in one transaction."""
        prepared = self._prepared(document)
        with self._changing() as (connection, change):
            fresh = writing.replace(connection, prepared, self._indexes.titles, time.time(), change)
        return Inserted(prepared.document.id, fresh=fresh)

    def file(self, documents: Sequence[Document]) -> list[str]:
        """Store documents under ids that are free, all or none; return the ids of their rows.

        A text that is there already is not stored again but listed as failed, with the document
        that has it. Raises `DocumentExistsError` when an id is taken, whatever the text.
        """
        prepared = [self._prepared(document) for document in documents]
        with self._changing() as (connection, change):
            return filing.file(connection, prepared, self._indexes.titles, time.time(), change)

    def record_failure(self, source: str, reason: str, track: str = "") -> str:
        """List a document that could not be read, and why; return the id of its row."""
        with self._changing() as (connection, _):
            return filing.record_failure(connection, source, reason, track, time.time())

    def doom(self, document_ids: Sequence[str]) -> None:
        """Promise to delete documents, or none of them when one is unknown; durable."""
        with self._changing() as (connection, _):
            filing.doom(connection, document_ids)

    def doomed(self) -> list[str]:
        """Return the ids of documents whose deletion was promised and is not done."""
        with self._store.read() as connection:
            return filing.doomed(connection)

    def delete_doomed(self, document_id: str) -> None:
        """Delete a document as promised; a row of the list that is none is removed too."""
        with self._changing() as (connection, change):
            filing.delete_doomed(connection, document_id, change)

    def clear(self) -> int:
        """Delete everything in one transaction; return how many rows the list had."""
        with self._changing() as (connection, change):
            return filing.clear(connection, change)

    def note_outage(self, problem: str) -> None:
        """Tell each document that waits for a model why; an empty text says that it works."""
        with self._store.write() as connection:
            filing.note_outage(connection, problem, self._needs)

    def delete(self, document_id: str) -> None:
        """Remove a document and everything that only it contributed."""
        with self._changing() as (connection, change):
            removed = writing.delete(connection, document_id)
            if removed is None:
                raise _unknown(document_id)
            change.add(removed)

    # --- catching up --------------------------------------------------------------------------

    def step(self) -> int:
        """Do one durable step of what lags behind; return chunks worked on, 0 when all is done.

        Last comes what makes a large base fast: it counts as one chunk.
        """
        worked = rebuilding.recut_one(
            self._store, self._changing, lambda: self._indexes.titles, self._options.chunks
        )
        if not worked and self._embedder:
            worked = catchup.embed_some(
                self._store, self._changing, self._embedder, _STEP, self._options.attempts
            )
        if not worked and self._chat:
            worked = catchup.extract_some(
                self._store, self._changing, self._chat, 1, self._options.attempts
            )
        return worked or int(self._indexes.settle())

    def catch_up(self, report: Callable[[Progress], None] | None = None) -> Progress:
        """Work until nothing lags behind, reporting after each step; may be broken off anywhere."""
        while self.step():
            if report:
                report(self.progress())
        return self.progress()

    def wait_for_work(self) -> None:
        """Return once something was written, or `wake` was called, since the last wait."""
        self._work.wait()
        self._work.clear()

    def wake(self) -> None:
        """Let whoever waits for work look for it."""
        self._work.set()

    def retry_failed(self) -> int:
        """Let the models try again what was given up; return how many documents are unfinished."""
        with self._changing() as (connection, _):
            return catchup.retry_failed(connection)

    def outdated(self) -> int:
        """Return how many documents were cut or read by other rules or sizes than today's."""
        with self._store.read() as connection:
            return rebuilding.outdated(connection, writing.rules_of(self._options.chunks))

    def progress(self) -> Progress:
        """Return how far the indexes are."""
        with self._store.read() as connection:
            return reading.progress(connection, embeds=self.embeds, extracts=self.extracts)

    # --- reading ------------------------------------------------------------------------------

    @property
    def embeds(self) -> bool:
        """Tell whether chunks get vectors."""
        return self._embedder is not None

    @property
    def extracts(self) -> bool:
        """Tell whether a chat model reads the chunks."""
        return self._chat is not None

    def query(self, question: str, mode: Mode = Mode.MIX, limit: int = 10) -> Answer:
        """Return the passages that answer a question, best first."""
        return self._retrieval.answer(question, mode, limit)

    def document(self, document_id: str) -> DocumentState:
        """Return how far a document is, or why it was not taken in."""
        with self._store.read() as connection:
            found = listing.one(connection, document_id, self._needs)
        if found is None:
            raise _unknown(document_id)
        return found

    def documents(self) -> list[DocumentState]:
        """Return every document that was taken in, the newest first."""
        with self._store.read() as connection:
            return listing.all_documents(connection, self._needs)

    def listed(self, wanted: Listing) -> Listed:
        """Return a part of the list, those that were not taken in among it."""
        with self._store.read() as connection:
            return listing.listed(connection, wanted, self._needs)

    def tracked(self, track: str) -> list[DocumentState]:
        """Return what one insertion brought."""
        with self._store.read() as connection:
            return listing.tracked(connection, track, self._needs)

    def places(self, chunk_ids: Iterable[str]) -> dict[str, Place]:
        """Return where chunks stand, by their ids."""
        with self._store.read() as connection:
            return reading.places(connection, chunk_ids)

    def text(self, document_id: str) -> str:
        """Return a document's whole text, of which every chunk is a slice."""
        with self._store.read() as connection:
            text = reading.document_text(connection, document_id)
        if text is None:
            raise _unknown(document_id)
        return text

    @property
    def _needs(self) -> dict[str, bool]:
        return {"embeds": self.embeds, "extracts": self.extracts}

    def names(self) -> list[str]:
        """Return every entity's name, sorted."""
        with self._store.read() as connection:
            return neighbourhood.every(connection)

    def has_name(self, name: str) -> bool:
        """Tell whether there is an entity of exactly this name."""
        with self._store.read() as connection:
            return neighbourhood.has(connection, name)

    def popular_names(self, limit: int = 300) -> list[str]:
        """Return the entities that most chunks name."""
        with self._store.read() as connection:
            return neighbourhood.popular(connection, limit)

    def search_names(self, text: str, limit: int = 50) -> list[str]:
        """Return entities whose names contain a text, whatever its case, the frequent first."""
        with self._store.read() as connection:
            return neighbourhood.search(connection, text, limit)

    def around(self, name: str, depth: int = 1, limit: int = 1000) -> Neighbourhood:
        """Return an entity, those related to it over up to `depth` steps, and their relations."""
        with self._store.read() as connection:
            return neighbourhood.around(connection, self._indexes.graph.view(), name, depth, limit)

    def most_named(self, limit: int = 1000) -> Neighbourhood:
        """Return the entities that most chunks name, and how these are related."""
        with self._store.read() as connection:
            return neighbourhood.most_named(connection, self._indexes.graph.view(), limit)

    def copy_to(self, target: Path) -> None:
        """Write the base as it is now to a new file, while it is in use."""
        copy_base(self._store.path, target)

    def verify(self) -> list[str]:
        """Return what is wrong with the base, one line each; reads all of it."""
        with self._store.read() as connection:
            return verifying.problems(connection)

    def _prepared(self, document: Document) -> writing.Prepared:
        return writing.prepare(document, self._options.chunks, self._store.go_on)

    @contextmanager
    def _changing(self) -> Iterator[tuple[sqlite3.Connection, Change]]:
        """Run one transaction, then let the indexes in memory know before anyone writes again."""
        change = Change()
        with self._applying:
            with self._store.write() as connection:
                yield connection, change
                stamp = note(connection, change)
            self._indexes.learn(change, stamp)
        self._work.set()


def _unknown(document_id: str) -> UnknownDocumentError:
    return UnknownDocumentError(
        f"There is no document {document_id}.", "List the documents to see their ids."
    )


def _identity(embedder: Embedder | None) -> str:
    return f"{embedder.identity} ({embedder.dimension})" if embedder else "none"


def _refuse_other_model(path: Path, stored: str, offered: str) -> None:
    if stored != offered:
        raise ModelMismatchError(
            f"{path.name} was made with the embedding model {stored}, not with {offered}.",
            "Name that model again, or reindex the base with the new one.",
        )
