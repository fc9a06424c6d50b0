"""The indexes in memory: loaded with a base, kept up with every change, saved beside the base.

Everything here is made from the tables. A large base keeps it in a file as well, so that opening
it maps that file and reads again only what changed since.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from dsh_lightrag.engine import change as changes
from dsh_lightrag.engine import keywords, sidecar, writing
from dsh_lightrag.engine.change import Change
from dsh_lightrag.engine.graph_store import Graph
from dsh_lightrag.engine.keywords import Keywords
from dsh_lightrag.engine.postings import Postings, read
from dsh_lightrag.engine.terms import terms
from dsh_lightrag.engine.vectors import Vectors

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Container, Iterable
    from typing import Any

    from numpy.typing import NDArray

    from dsh_lightrag.engine.change import Stamp
    from dsh_lightrag.engine.sidecar import Sidecar
    from dsh_lightrag.engine.store import Store

# A smaller base is answered by its own keyword index and loaded from its tables within moments.
FEWEST_CHUNKS = 2_000
# It is saved again when one chunk in so many has changed: on closing, and while it is in use.
_SAVED_SHARE, _SAVED_SHARE_IN_USE = 20, 4


class Indexes:
    """Titles, graph, vectors and keywords of an open base."""

    def __init__(self, store: Store, dimension: int | None) -> None:
        """Load them; without a dimension there are no vectors."""
        self._store = store
        self._sidecar = sidecar.path_of(store.path)
        self._learning = threading.Lock()
        self._missed: list[Change] | None = None
        self.keywords = Keywords()
        with store.read() as connection:
            self._stamp = changes.newest(connection)
            self.titles = writing.load_titles(connection)
            common = [row[0] for row in connection.execute(_COMMON)]
            saved = sidecar.load(self._sidecar)
            touched = changes.touched_since(connection, saved.stamp) if saved else None
            if saved is not None and touched is not None:
                postings = self._take(saved, common, dimension)
                self._unsaved = len(touched)
                self._update(_read_again(connection, touched, postings))
            else:
                self.graph = Graph(dict(connection.execute(_EDGES).fetchall()), common)
                self.vectors = _vectors(connection, dimension) if dimension else None
                self._unsaved = self.graph.chunks

    def learn(self, change: Change, stamp: Stamp | None) -> None:
        """Take over what a transaction changed, once it is durable."""
        with self._learning:
            if self._missed is not None:
                self._missed.append(change)
            self._update(change)
            self.titles.update(change.titles)
            if stamp is not None:
                self._stamp = stamp
                self._unsaved += len(change.edges.keys() | change.vectors.keys())

    def settle(self) -> bool:
        """Make in memory what only the base has so far, and save what has grown; False if nothing.

        Questions do not wait for it. Who writes waits while what is to be saved is copied, not
        while it is put in order and written.
        """
        if self.graph.chunks < FEWEST_CHUNKS:
            return False
        if self.keywords.postings is None:
            self._make_postings()
            return True
        return self.save(_SAVED_SHARE_IN_USE)

    def save(self, share: int = _SAVED_SHARE) -> bool:
        """Save the indexes beside the base if enough has changed; tell whether they were."""
        postings = self.keywords.postings
        with self._learning:
            if postings is None or self._unsaved * share <= self.graph.chunks:
                return False
            held = postings.held()
            parts: dict[str, dict[str, NDArray[Any]]] = {"graph": self.graph.arrays()}
            if self.vectors is not None:
                parts["vectors"] = self.vectors.arrays()
            stamp, unsaved = self._stamp, self._unsaved
            self._unsaved = 0
        parts["words"] = postings.arrays(held)
        arrays = {
            f"{part}.{name}": array for part, held in parts.items() for name, array in held.items()
        }
        if not sidecar.save(self._sidecar, sidecar.Sidecar(stamp, arrays)):
            with self._learning:
                self._unsaved += unsaved  # the disk may have room the next time
            return False
        with self._store.write() as connection:
            changes.forget(connection, stamp)
        return True

    def _take(self, saved: Sidecar, common: Iterable[int], dimension: int | None) -> Postings:
        """Hold what a file beside the base holds."""
        parts: dict[str, dict[str, NDArray[Any]]] = {"graph": {}, "words": {}, "vectors": {}}
        for name, array in saved.arrays.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = array
        self.graph = Graph.of_arrays(parts["graph"], common)
        self.keywords.postings = postings = Postings(parts["words"])
        self.vectors = Vectors.of_arrays(parts["vectors"]) if dimension else None
        return postings

    def _make_postings(self) -> None:
        """Make the keyword index in memory while questions and writers go on."""
        with self._learning:
            self._missed = []
        try:
            with self._store.read() as connection:
                made = Postings(read(connection))
        except BaseException:  # whatever broke it off, nothing is to be kept for it
            with self._learning:
                self._missed = None
            raise
        with self._learning:
            missed, self._missed = self._missed, None
            self.keywords.postings = made
            for change in missed:
                self.keywords.update(change.terms)

    def _update(self, change: Change) -> None:
        self.graph.update(change.edges, change.common)
        self.keywords.update(change.terms)
        if self.vectors is not None:
            self.vectors.update(change.vectors)


_COMMON = "SELECT no FROM entity WHERE common = 1"
_EDGES = "SELECT chunk, edges FROM mention ORDER BY chunk"
_VECTORS = "SELECT chunk, data FROM vector ORDER BY chunk"
_EDGES_OF = (
    "SELECT chunk, edges FROM mention WHERE chunk IN (SELECT value FROM json_each(?)) "
    "ORDER BY chunk"
)
_VECTORS_OF = (
    "SELECT chunk, data FROM vector WHERE chunk IN (SELECT value FROM json_each(?)) ORDER BY chunk"
)


def _vectors(connection: sqlite3.Connection, dimension: int) -> Vectors:
    loaded = Vectors(dimension)
    loaded.update(dict(connection.execute(_VECTORS).fetchall()))
    return loaded


def _read_again(
    connection: sqlite3.Connection, touched: Iterable[int], postings: Container[int]
) -> Change:
    """Return what the base says about chunks now, None for those that are gone.

    A chunk's words never change: those that the postings have are not read.
    """
    listed = (json.dumps(list(touched)),)
    change = Change(dict.fromkeys(touched), {}, dict.fromkeys(touched), dict.fromkeys(touched))
    for held, statement in ((change.edges, _EDGES_OF), (change.vectors, _VECTORS_OF)):
        held.update(connection.execute(statement, listed).fetchall())
    there = [number for number, edges in change.edges.items() if edges is not None]
    for number in there:
        if number in postings:
            del change.terms[number]
    for number, *body in connection.execute(
        "SELECT chunk.no, title, heading, text FROM chunk JOIN document "
        "ON document.no = chunk.document WHERE chunk.no IN (SELECT value FROM json_each(?))",
        (json.dumps([number for number in there if number in change.terms]),),
    ):
        change.terms[number] = terms(keywords.body(*body))
    return change
