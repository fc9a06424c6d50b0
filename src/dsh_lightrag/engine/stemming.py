"""Terms as the index in the base stems them: the same code is asked, each term once."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_KNOWN = 500_000


class Stemmer:
    """Stems of terms, remembered."""

    def __init__(self) -> None:
        """Make an index in memory that is declared like the one in `schema.sql`."""
        self._index = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._index.executescript(
            "CREATE VIRTUAL TABLE stem USING fts5 "
            "(body, content = '', tokenize = \"porter ascii tokenchars '+#'\");"
            "CREATE VIRTUAL TABLE stem_at USING fts5vocab (stem, instance);"
        )
        self._known: dict[str, tuple[bytes, ...]] = {}
        self._asking = threading.Lock()

    def stems(self, terms: list[str]) -> list[bytes]:
        """Return the stems of a text's terms in order; a term may be several, or none."""
        return [stem for stems in self._of(terms) for stem in stems]

    def one_each(self, terms: list[str]) -> list[bytes] | None:
        """Return a stem for each term, or None if some term is not exactly one."""
        found = self._of(terms)
        return [stems[0] for stems in found] if all(len(stems) == 1 for stems in found) else None

    def _of(self, terms: list[str]) -> list[tuple[bytes, ...]]:
        known = self._known
        if not all(term in known for term in terms):
            with self._asking:
                if len(known) > _MOST_KNOWN:
                    known = self._known = {}
                self._learn(known, {term for term in terms if term not in known})
        return [known[term] for term in terms]

    def _learn(self, known: dict[str, tuple[bytes, ...]], terms: Iterable[str]) -> None:
        fresh = list(terms)
        self._index.execute("BEGIN")
        self._index.executemany("INSERT INTO stem (rowid, body) VALUES (?, ?)", enumerate(fresh))
        found: list[list[tuple[int, bytes]]] = [[] for _ in fresh]
        for stem, place, offset in self._index.execute("SELECT term, doc, offset FROM stem_at"):
            found[place].append((offset, stem.encode()))
        self._index.execute("ROLLBACK")
        known.update(
            (term, tuple(stem for _, stem in sorted(stems)))
            for term, stems in zip(fresh, found, strict=True)
        )
