"""Titles of documents are names wherever they stand, however they are spelled there.

A new text is searched for the titles known so far, and a new title is looked for in the texts
stored so far, so that the graph does not depend on the order of insertion. Only a title that
stands in very many chunks already (a document called "Report") is linked to the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_lightrag.engine import keywords, names

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

MOST_LINKS = 1000
_SHORTEST_WORD = 5  # a single short word ("Up", "Heat") is too often no title


class Titles:
    """Every title of the base by its key, for finding them in a text in one pass."""

    def __init__(self, documents: Mapping[str, int]) -> None:
        self._documents: dict[str, int] = {}
        self._longest: dict[str, int] = {}  # by first word; shrinks only when opened anew
        self._hidden: frozenset[str] = frozenset()
        self.update(documents)

    def __contains__(self, key: str) -> bool:
        return key in self._documents and key not in self._hidden

    def after(self, delta: Mapping[str, int]) -> Titles:
        """Return the titles as they will be once a deletion in this transaction is durable."""
        view = Titles({})
        view._documents, view._longest = self._documents, self._longest
        view._hidden = frozenset(
            key for key, change in delta.items() if self._documents.get(key, 0) + change <= 0
        )
        return view

    def copied(self) -> Titles:
        """Return titles that may be updated without these noticing."""
        return Titles(self._documents)

    def update(self, delta: Mapping[str, int]) -> None:
        """Add to the number of documents that have each title; at zero a title is gone."""
        for key, change in delta.items():
            documents = self._documents.get(key, 0) + change
            if documents <= 0:
                self._documents.pop(key, None)
                continue
            self._documents[key] = documents
            found = key.split(" ")
            self._longest[found[0]] = max(self._longest.get(found[0], 0), len(found))

    def mentioned(self, found: list[str], own: str) -> set[str]:
        """Return the titles, `own` among them, that stand in these words."""
        own_words = own.split(" ")
        mentioned: set[str] = set()
        for start, first in enumerate(found):
            longest = self._longest.get(first, 0)
            if own and first == own_words[0]:
                longest = max(longest, len(own_words))
            name = first
            for end in range(start + 1, min(start + longest, len(found)) + 1):
                if end > start + 1:
                    name = f"{name} {found[end - 1]}"
                if (name == own or name in self) and links(name):
                    mentioned.add(name)
        return mentioned


def links(key: str) -> bool:
    """Tell whether mentions of a title are links at all."""
    return " " in key or len(key) >= _SHORTEST_WORD


def chunks_naming(connection: sqlite3.Connection, key: str) -> Iterator[int]:
    """Yield the chunks whose text has this title, up to the number that is linked."""
    needle = f" {key} "
    left = MOST_LINKS
    rows = connection.execute(
        "SELECT chunk.no, chunk.text FROM keyword JOIN chunk ON chunk.no = keyword.rowid "
        "WHERE keyword MATCH ? ORDER BY chunk.no",
        (keywords.all_of(key),),
    )
    for number, text in rows:
        if needle in f" {' '.join(names.words(text))} ":
            yield number
            left -= 1
            if left == 0:
                return
