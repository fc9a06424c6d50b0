"""Signal 2: BM25 over the terms of each chunk.

The index in the base's own file is the truth: a chunk is found the moment its transaction commits.
A larger base answers from `postings.py`, which is made from that index.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsh_lightrag.engine import spelling
from dsh_lightrag.engine.model import Ranking
from dsh_lightrag.engine.stemming import Stemmer
from dsh_lightrag.engine.terms import query_terms, terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from dsh_lightrag.engine.postings import Postings

# A longer question is cut: beyond this, more terms cost time and say nothing new.
_MOST_TERMS = 64
# A term that more chunks have is not looked up beside rarer ones: in a base of ten thousand chunks
# that is a word of every third, in a larger one each question's cost stays what it was.
MOST_CHUNKS = 4000
_FEWEST_TERMS = 2


def body(title: str, heading: str, text: str) -> str:
    """Return what a chunk is found by: its text, its headings and its document's title."""
    return "\n".join(part for part in (title, heading, text) if part)


def add(connection: sqlite3.Connection, bodies: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    """Index chunks by number; return the terms of each."""
    found = {number: terms(text) for number, text in bodies}
    connection.executemany(
        "INSERT INTO keyword (rowid, body) VALUES (?, ?)",
        ((number, " ".join(terms_)) for number, terms_ in found.items()),
    )
    return found


def remove(connection: sqlite3.Connection, bodies: Iterable[tuple[int, str]]) -> None:
    """Take chunks out; the bodies must be those that were added."""
    connection.executemany(
        "INSERT INTO keyword (keyword, rowid, body) VALUES ('delete', ?, ?)",
        ((number, " ".join(terms(text))) for number, text in bodies),
    )


class Keywords:
    """The search: in the base's own index, or in memory once that is ready. Both score alike."""

    def __init__(self) -> None:
        """Begin with the base's index alone."""
        self.postings: Postings | None = None
        self._stemmer = Stemmer()

    def update(self, change: Mapping[int, list[str] | None]) -> None:
        """Take over the terms of chunks that came, and chunks that went."""
        if self.postings is not None and change:
            self.postings.update(
                {
                    chunk: None if terms_ is None else self._stemmer.stems(terms_)
                    for chunk, terms_ in change.items()
                }
            )

    def search(self, connection: sqlite3.Connection, question: str, limit: int) -> Ranking:
        """Rank the chunks that have any term of the question; equal ones in order of insertion."""
        asked = _telling(connection, query_terms(question)[:_MOST_TERMS])
        if not asked:
            return Ranking()
        stems = self._stemmer.one_each(asked)
        if self.postings is None or stems is None:
            return search(connection, asked, limit)
        return self.postings.search(stems, limit)

    def search_among(
        self,
        connection: sqlite3.Connection,
        question: str,
        known: Iterable[str],
        chunks: Iterable[int],
    ) -> Ranking:
        """Rank some chunks by the terms of the question that are in none of the known names."""
        answered = {term for name in known for term in terms(name)}
        asked = [term for term in query_terms(question) if term not in answered][:_MOST_TERMS]
        asked = _telling(connection, asked)
        if not asked:
            return Ranking()
        stems = self._stemmer.one_each(asked)
        if self.postings is None or stems is None:
            return search_among(connection, asked, chunks)
        return self.postings.search_among(stems, chunks)


def search(connection: sqlite3.Connection, asked: list[str], limit: int) -> Ranking:
    """Rank the chunks that have any of these terms by the base's own index."""
    rows = connection.execute(
        "SELECT rowid, -bm25(keyword) AS score FROM keyword WHERE keyword MATCH ? "
        "ORDER BY score DESC, rowid LIMIT ?",
        (" OR ".join(map(_quoted, asked)), limit),
    )
    return _ranking(rows)


def search_among(
    connection: sqlite3.Connection, asked: list[str], chunks: Iterable[int]
) -> Ranking:
    """Rank those of the chunks that have any of these terms by the base's own index."""
    rows = connection.execute(
        # The plus keeps SQLite from searching once per chunk: it then filters one search.
        "SELECT rowid, -bm25(keyword) AS score FROM keyword WHERE keyword MATCH ? "
        "AND +rowid IN (SELECT value FROM json_each(?)) ORDER BY score DESC, rowid",
        (" OR ".join(map(_quoted, asked)), json.dumps(list(chunks))),
    )
    return _ranking(rows)


def _telling(connection: sqlite3.Connection, asked: list[str]) -> list[str]:
    """Leave out terms that very many chunks have, if there are others: they cost most."""
    if len(asked) <= _FEWEST_TERMS:
        return asked
    counts = spelling.chunk_counts(connection, asked)
    rarest = sorted(asked, key=lambda term: counts.get(term, 0))[:_FEWEST_TERMS]
    return [term for term in asked if counts.get(term, 0) <= MOST_CHUNKS or term in rarest]


def _ranking(rows: Iterable[tuple[int, float]]) -> Ranking:
    found = list(rows)
    return Ranking(tuple(row[0] for row in found), tuple(row[1] for row in found))


def all_of(text: str) -> str:
    """Return the expression for chunks that have every term of a text."""
    return " AND ".join(map(_quoted, dict.fromkeys(terms(text))))


def _quoted(term: str) -> str:
    """Return a term as a string of the query language; terms have no quotes, only `+` and `#`."""
    return f'"{term}"'
