"""The relations a chat model told that a question asks for, best first, and their chunks.

A relation is asked for when the question names its ends, or uses the words with which the model
told it. Names that only stand together need no ranking of their own: they are what the graph's
walk goes along (see `graph.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.engine.model import Ranking
from dsh_lightrag.engine.terms import query_terms, terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

_MOST = 2000  # relations looked at for one question, the heaviest first
_HEAD = 5  # so many letters join the forms of a word: "found", "founded", "founder"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entities, by number, and the chunks that relate them; `score` 0..1: how asked for."""

    source: int
    target: int
    score: float
    chunks: tuple[int, ...]


def asked_for(
    connection: sqlite3.Connection,
    question: str,
    seeds: Mapping[int, str],
    found: Iterable[int],
) -> list[Pair]:
    """Return the told relations that a question asks for, merged over chunks, best first.

    Half of a score is how many of the ends the question names, half how many of its other words
    the relation's description and keywords have; the relation's weight scales both.

    Args:
        connection: the base.
        question: its text.
        seeds: the entities that the question names, by number, as they are written.
        found: chunks with words of the question, whose relations are looked at too.
    """
    rows = connection.execute(
        "WITH seed AS (SELECT value AS no FROM json_each(?)) "
        "SELECT source, target, description, keywords, weight, chunk FROM relation "
        "WHERE source IN seed OR target IN seed OR chunk IN (SELECT value FROM json_each(?)) "
        "ORDER BY weight DESC, chunk LIMIT ?",
        (json.dumps(list(seeds)), json.dumps(list(found)), _MOST),
    )
    answered = {head for name in seeds.values() for head in _heads(terms(name))}
    asked = _heads(query_terms(question)) - answered
    merged: dict[tuple[int, int], Pair] = {}
    for source, target, description, keywords, weight, chunk in rows:
        said = len(asked & _heads(terms(f"{description} {keywords}"))) / max(len(asked), 1)
        named = ((source in seeds) + (target in seeds)) / 2
        score = weight * (named + said) / 2
        before = merged.get((source, target), Pair(source, target, 0.0, ()))
        chunks = (*before.chunks, chunk)
        merged[source, target] = Pair(source, target, max(score, before.score), chunks)
    return sorted(
        (pair for pair in merged.values() if pair.score > 0),
        key=lambda pair: (-pair.score, pair.source, pair.target),
    )


def ranked(pairs: Iterable[Pair], limit: int) -> Ranking:
    """Rank chunks by the best relation they tell; of equal ones the first inserted leads."""
    best: dict[int, float] = {}
    for pair in pairs:
        for chunk in pair.chunks:
            best[chunk] = max(best.get(chunk, 0.0), pair.score)
    order = sorted(best, key=lambda chunk: (-best[chunk], chunk))[:limit]
    return Ranking(tuple(order), tuple(best[chunk] for chunk in order))


def _heads(words: Iterable[str]) -> set[str]:
    return {word[:_HEAD] for word in words}
