"""Signal 2 in memory: for each term the chunks that have it, and BM25 over them.

The index in the base (FTS5) is the truth and answers until this one has been made from it; both
give the same scores. Terms here are as FTS5 stems them.
"""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsh_lightrag.engine.places import Growing, Places
from dsh_lightrag.engine.vectors import best

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dsh_lightrag.engine.model import Ranking
    from dsh_lightrag.engine.places import Placed
    from dsh_lightrag.engine.sidecar import Arrays

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

# The constants of FTS5, and what it gives a term that more than half of the chunks have.
_K1, _B, _LEAST_IDF = 1.2, 0.75, 1e-6
_MOST_COUNTED = 0xFFFF


class Vocabulary:
    """Sorted terms in one run of bytes, each found by halving."""

    def __init__(self, data: NDArray[np.uint8], ends: Numbers) -> None:
        self.data, self.ends = data, ends
        self._bytes = data.data

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, place: int) -> bytes:
        return bytes(self._bytes[self.ends[place] : self.ends[place + 1]])

    @classmethod
    def of(cls, terms: Sequence[bytes]) -> Vocabulary:
        """Return the vocabulary of sorted terms."""
        ends = np.zeros(len(terms) + 1, dtype=np.int64)
        np.cumsum([len(term) for term in terms], out=ends[1:])
        return cls(np.frombuffer(b"".join(terms) or b"\0", dtype=np.uint8), ends)

    def place(self, term: bytes) -> int:
        """Return where a term stands, or -1."""
        found = bisect_left(self, term)
        return found if found < len(self) and self[found] == term else -1

    def all(self) -> list[bytes]:
        """Return every term."""
        return [self[place] for place in range(len(self))]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The chunks of an index at one moment, and how long each is in terms."""

    placed: Placed
    lengths: NDArray[np.int32]
    average: float


class Postings:
    """Which chunks have each term, and how often."""

    def __init__(self, arrays: Arrays) -> None:
        """Begin with an index as `arrays` describes it, or `read` finds it."""
        self._vocabulary = Vocabulary(arrays["terms"], arrays["ends"])
        self._starts, self._chunk = arrays["starts"], arrays["chunk"]
        self._count = arrays["count"]
        self._places = Places(arrays["numbers"])
        self._lengths = Growing(arrays["lengths"])
        self._later: dict[bytes, tuple[array[int], array[int]]] = {}
        self._updating = threading.Lock()
        self._publish()

    def __contains__(self, chunk: object) -> bool:
        return isinstance(chunk, int) and bool(self._snapshot.placed.of([chunk]))

    def update(self, change: Mapping[int, list[bytes] | None]) -> None:
        """Take the stemmed terms of chunks in, or chunks out where the value is None."""
        if not change:
            return
        with self._updating:
            coming = {chunk: terms for chunk, terms in change.items() if terms is not None}
            first = len(self._lengths)
            for place, terms in enumerate(coming.values(), start=first):
                for term, count in Counter(terms).items():
                    places, counts = self._later.setdefault(term, (array("I"), array("H")))
                    # The count first: whoever sees the place must find it.
                    counts.append(min(count, _MOST_COUNTED))
                    places.append(place)
            self._places.change(change, coming)
            self._lengths.extend(np.array([len(t) for t in coming.values()], dtype=np.int32))
            self._publish()

    def search(self, terms: Sequence[bytes], limit: int) -> Ranking:
        """Rank the chunks that have any of the terms."""
        snapshot = self._snapshot
        scores = self._scores(snapshot, terms)
        found = np.flatnonzero(scores)
        return best(snapshot.placed.numbers[found], scores[found], limit)

    def search_among(self, terms: Sequence[bytes], chunks: Iterable[int]) -> Ranking:
        """Rank those of the chunks that have any of the terms."""
        snapshot = self._snapshot
        places = np.fromiter(snapshot.placed.of(chunks).values(), dtype=np.int64)
        scores = self._scores(snapshot, terms)[places]
        numbers = snapshot.placed.numbers[places]
        return best(numbers[scores > 0], scores[scores > 0], len(places))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the whole index in order, as the constructor takes it."""
        with self._updating:
            snapshot = self._snapshot
            later = {term: self._of_later(term, snapshot) for term in self._later}
        known = self._vocabulary.all()
        terms = sorted({*known, *later})
        number = {term: place for place, term in enumerate(terms)}
        base = np.array([number[term] for term in known], dtype=np.int64)
        term = np.concatenate(
            [
                np.repeat(base, np.diff(self._starts)),
                np.repeat(
                    np.array([number[term] for term in later], dtype=np.int64),
                    [len(places) for places, _ in later.values()],
                ),
            ]
        )
        place = np.concatenate([self._chunk, *(places for places, _ in later.values())])
        count = np.concatenate([self._count, *(counts for _, counts in later.values())])
        living = np.flatnonzero(snapshot.placed.alive)
        living = living[np.argsort(snapshot.placed.numbers[living])]
        moved = np.full(len(snapshot.placed), -1, dtype=np.int64)
        moved[living] = np.arange(len(living))
        place = moved[place]
        order = np.argsort((term << 32) | place)
        order = order[place[order] >= 0]
        return _arrays(
            terms,
            np.bincount(term[order], minlength=len(terms)),
            (place[order], count[order]),
            (snapshot.placed.numbers[living], snapshot.lengths[living]),
        )

    def _scores(self, snapshot: Snapshot, terms: Sequence[bytes]) -> Floats:
        """Return the score of every place, reckoned step by step as FTS5 does."""
        scores = np.zeros(len(snapshot.placed))
        alive = snapshot.placed.alive
        chunks = snapshot.placed.living
        is_holed = chunks < len(alive)
        for term in terms:
            places, counts = self._of(term, snapshot)
            having = int(np.count_nonzero(alive[places])) if is_holed else len(places)
            idf = math.log((chunks - having + 0.5) / (having + 0.5))
            times = counts.astype(np.float64)
            length = _B * snapshot.lengths[places] / snapshot.average
            share = (times * (_K1 + 1)) / (times + _K1 * (1 - _B + length))
            scores[places] += (idf if idf > 0 else _LEAST_IDF) * share
        if is_holed:
            scores[~alive] = 0
        return scores

    def _of(self, term: bytes, snapshot: Snapshot) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the places that have a term, and how often each has it."""
        found = self._vocabulary.place(term)
        at = slice(self._starts[found], self._starts[found + 1]) if found >= 0 else slice(0, 0)
        if term not in self._later:
            return self._chunk[at], self._count[at]
        places, counts = self._of_later(term, snapshot)
        return np.concatenate([self._chunk[at], places]), np.concatenate([self._count[at], counts])

    def _of_later(self, term: bytes, snapshot: Snapshot) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return those places among the appended ones, leaving out what came after a snapshot."""
        all_places, all_counts = self._later[term]
        places = np.array(all_places[:], dtype=np.uint32)
        places = places[: np.searchsorted(places, len(snapshot.placed))]
        return places, np.array(all_counts[: len(places)], dtype=np.uint16)

    def _publish(self) -> None:
        """Let searches see the chunks as they are now."""
        placed = self._places.snapshot()
        lengths = np.asarray(self._lengths.rows(), dtype=np.int32)
        total = int(lengths[placed.alive].sum(dtype=np.int64))
        self._snapshot = Snapshot(placed, lengths, total / placed.living if total else 1.0)


def read(connection: sqlite3.Connection) -> dict[str, NDArray[Any]]:
    """Return the index that FTS5 has, as arrays; takes a minute per million chunks."""
    sizes = connection.execute("SELECT id, sz FROM keyword_docsize ORDER BY id").fetchall()
    numbers = np.array([row[0] for row in sizes], dtype=np.int64)
    terms, having, chunk, count = [], [], [], []
    # SQLite puts the numbers together: a row per occurrence would take Python far longer.
    for term, listed in connection.execute(
        "SELECT term, group_concat(doc, ' ') FROM keyword_at GROUP BY term"
    ):
        occurrences = np.fromstring(listed, dtype=np.int64, sep=" ")
        docs, times = np.unique(occurrences, return_counts=True)
        terms.append(term.encode())
        having.append(len(docs))
        chunk.append(np.searchsorted(numbers, docs).astype(np.uint32))
        count.append(np.minimum(times, _MOST_COUNTED).astype(np.uint16))
    return _arrays(
        terms,
        np.array(having, dtype=np.int64),
        (
            np.concatenate([np.empty(0, np.uint32), *chunk]),
            np.concatenate([np.empty(0, np.uint16), *count]),
        ),
        (numbers, np.array([_varint(row[1]) for row in sizes], dtype=np.int32)),
    )


def _arrays(
    terms: Sequence[bytes],
    having: Numbers,
    at: tuple[NDArray[Any], NDArray[Any]],
    chunks: tuple[Numbers, NDArray[np.int32]],
) -> dict[str, NDArray[Any]]:
    """Return an index of terms that so many chunks have, at these places, so often there.

    The chunks are their numbers and their lengths.
    """
    vocabulary = Vocabulary.of(terms)
    return {
        "terms": vocabulary.data,
        "ends": vocabulary.ends,
        "starts": np.concatenate([np.zeros(1, np.int64), np.cumsum(having, dtype=np.int64)]),
        "chunk": at[0].astype(np.uint32),
        "count": at[1].astype(np.uint16),
        "numbers": chunks[0],
        "lengths": chunks[1],
    }


def _varint(data: bytes) -> int:
    """Return a number as SQLite packs it: seven bits a byte, the highest first."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
    return value
