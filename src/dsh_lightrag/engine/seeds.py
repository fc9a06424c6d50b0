"""The entities that a question names, and how much of the question they are."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.engine import local_extraction, names, spelling

if TYPE_CHECKING:
    import sqlite3

    from dsh_lightrag.engine.graph import View

# One word must be this rare to stand for an entity, unless hardly any chunk names it anyway.
_RARE_ENOUGH = 2.5
_FEW_MENTIONS = 5
_SHORTEST = 3
_LOOKED_AT = 20  # chunks of a name that are looked at for where it leads


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where the graph's rankings start.

    Attributes:
        weights: the rarity of each named entity, by its number.
        shown: how each is written.
        coverage: 0..1, the named entities' share of the rarity of all words of the question.
    """

    weights: dict[int, float] = field(default_factory=dict)
    shown: dict[int, str] = field(default_factory=dict)
    coverage: float = 0.0


def find(connection: sqlite3.Connection, question: str, view: View) -> Seeds:
    """Return the entities that a question names; longer names win over those inside them."""
    words = names.words(question)
    known = _known(connection, words, view)
    if not known:
        return Seeds()
    written = _written_as_names(question)

    def accepts(name: str) -> bool:
        found = known.get(name)
        if found is None:
            return False
        if " " in name:
            return found.is_name or found.is_title
        if len(name) < _SHORTEST or name in names.STOP_WORDS:
            return False
        rare = view.mentions[found.number] <= _FEW_MENTIONS
        rare = rare or view.rarity[found.number] >= _RARE_ENOUGH
        return bool(rare) and (found.is_name or name in written)

    matched = names.longest_matches(words, accepts)
    leading = [name for name in matched if _leads_on(view, known[name].number)]
    covered = {word for name in leading for word in name.split(" ")}
    return Seeds(
        {known[name].number: float(view.rarity[known[name].number]) for name in matched},
        {known[name].number: known[name].shown for name in matched},
        _coverage(connection, words, covered, view.chunks),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """An entity whose name stands in the question."""

    number: int
    shown: str
    is_name: bool
    is_title: bool


def _known(connection: sqlite3.Connection, words: list[str], view: View) -> dict[str, _Known]:
    """Return every entity whose name stands in the question, by its key."""
    candidates = {name for _, _, name in names.spans(words, names.MAX_CHARACTERS)}
    rows = connection.execute(
        "SELECT entity.key, no, name, common = 0 OR certain > 0, title.key IS NOT NULL "
        "FROM entity LEFT JOIN title ON title.key = entity.key "
        "WHERE entity.key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(candidates)),),
    )
    # The view may be a moment older or newer than the connection: then the entity waits.
    return {
        key: _Known(number, name, bool(is_name), bool(is_title))
        for key, number, name, is_name, is_title in rows
        if number < view.entities and view.mentions[number] > 0
    }


def _written_as_names(question: str) -> set[str]:
    """Return the words that the question itself writes with a capital within a sentence."""
    uses = local_extraction.spelling_counts(question)
    if not any(used.lower for used in uses.values()):
        return set()  # where everything is a capital, capitals tell nothing
    return {word for word, used in uses.items() if used.inner}


def _leads_on(view: View, entity: int) -> bool:
    """Tell whether from a chunk that names the entity another name leads to another chunk.

    A name that leads nowhere tells nothing that keyword search has not seen.
    """
    chunks = view.chunks_of(entity)[:_LOOKED_AT]
    return any(
        view.mentions[other] > 1
        for named in view.entities_of(chunks).values()
        for other in named
        if other != entity
    )


def _coverage(
    connection: sqlite3.Connection, words: list[str], covered: set[str], chunks: int
) -> float:
    asked = set(words) - names.STOP_WORDS
    counts = spelling.chunk_counts(connection, asked)

    def rarity(word: str) -> float:
        count = min(counts.get(word, 0), chunks)
        return math.log(1 + (chunks - count + 0.5) / (count + 0.5))

    total = sum(map(rarity, sorted(asked)))
    return sum(map(rarity, sorted(asked & covered))) / total if total else 0.0
