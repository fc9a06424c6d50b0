"""The entities that a question names, and how much of the question they are."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.engine import names, spelling

if TYPE_CHECKING:
    import sqlite3

    from dsh_lightrag.engine.graph import View

# One word must be this rare to stand for an entity, unless hardly any chunk names it anyway.
_RARE_ENOUGH = 2.5
_FEW_MENTIONS = 5
_SHORTEST = 3


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
    chunks = view.chunks

    def accepts(name: str) -> bool:
        if name not in known:
            return False
        if " " in name:
            return True
        if len(name) < _SHORTEST or name in names.STOP_WORDS:
            return False
        entity = known[name][0]
        return bool(view.mentions[entity] <= _FEW_MENTIONS or view.rarity[entity] >= _RARE_ENOUGH)

    matched = names.longest_matches(words, accepts)
    weights = {known[name][0]: float(view.rarity[known[name][0]]) for name in matched}
    covered = {word for name in matched for word in name.split(" ")}
    return Seeds(
        weights,
        {known[name][0]: known[name][1] for name in matched},
        _coverage(connection, words, covered, chunks),
    )


def _known(
    connection: sqlite3.Connection, words: list[str], view: View
) -> dict[str, tuple[int, str]]:
    """Return number and spelling of every entity whose name stands in the question."""
    candidates = {name for _, _, name in names.spans(words, names.MAX_CHARACTERS)}
    rows = connection.execute(
        "SELECT key, no, name FROM entity WHERE key IN (SELECT value FROM json_each(?)) "
        "AND (common = 0 OR certain > 0)",
        (json.dumps(list(candidates)),),
    )
    # The view may be a moment older or newer than the connection: then the entity waits.
    return {
        key: (number, name)
        for key, number, name in rows
        if number < view.entities and view.mentions[number] > 0
    }


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
