"""The graph as people look at it: names by how often they stand, names like these, names around.

Without a chat model no relation is told; then two names are related when chunks name both, the
more so the rarer the names and the more of their chunks are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from dsh_lightrag.engine import names, reading
from dsh_lightrag.engine.model import Entity, Relation

if TYPE_CHECKING:
    import sqlite3

    from dsh_lightrag.engine.graph import View

_NAMED = "(common = 0 OR certain > 0)"
_CHUNKS_LOOKED_AT = 50
_SHOWN_CHUNKS = 20
# Where every name stands beside every other, all pairs show nothing, and take minutes.
_RELATIONS_PER_ENTITY = 20
TOGETHER = "named together"


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Entities and how they are related; `truncated` when there are more."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    truncated: bool


def popular(connection: sqlite3.Connection, limit: int) -> list[str]:
    """Return the names that most chunks have."""
    rows = connection.execute(
        f"SELECT name FROM entity WHERE {_NAMED} ORDER BY mentions DESC, no LIMIT ?",  # noqa: S608 - our own text
        (limit,),
    )
    return [row[0] for row in rows]


def every(connection: sqlite3.Connection) -> list[str]:
    """Return all names, sorted."""
    rows = connection.execute(f"SELECT name FROM entity WHERE {_NAMED} ORDER BY name")  # noqa: S608 - our own text
    return [row[0] for row in rows]


def has(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether there is exactly this name."""
    rows = connection.execute(
        f"SELECT 1 FROM entity WHERE key = ? AND name = ? AND {_NAMED}",  # noqa: S608 - our own text
        (names.key(name), name),
    )
    return rows.fetchone() is not None


def search(connection: sqlite3.Connection, text: str, limit: int) -> list[str]:
    """Return names that contain a text, whatever its case, the most frequent first."""
    wanted = text.strip().casefold()
    if not wanted:
        return []
    rows = connection.execute(
        f"SELECT name FROM entity WHERE {_NAMED} ORDER BY mentions DESC, no"  # noqa: S608 - our own text
    )
    # Not LIKE, which knows the case of ASCII alone.
    return list(islice((name for (name,) in rows if wanted in name.casefold()), limit))


def most_named(connection: sqlite3.Connection, view: View, limit: int) -> Neighbourhood:
    """Return the entities that most chunks have, and the strongest relations among these."""
    numbers = [
        row[0]
        for row in connection.execute(
            f"SELECT no FROM entity WHERE {_NAMED} ORDER BY mentions DESC, no LIMIT ?",  # noqa: S608 - our own text
            (limit + 1,),
        )
    ]
    truncated, numbers = len(numbers) > limit, numbers[:limit]
    chosen = set(numbers)
    pairs = {
        (min(entity, other), max(entity, other)): weight
        for entity in numbers
        for other, weight in related(view, entity)
        if other in chosen
    }
    return _described(connection, view, numbers, pairs, truncated=truncated)


def around(
    connection: sqlite3.Connection, view: View, name: str, depth: int, limit: int
) -> Neighbourhood:
    """Return an entity and those related to it, directly and over up to `depth` steps."""
    start = _number(connection, name)
    if start is None:
        return Neighbourhood((), (), truncated=False)
    reached: dict[int, None] = {start: None}
    pairs: dict[tuple[int, int], float] = {}
    frontier = [start]
    truncated = False
    for _ in range(depth):
        following: list[int] = []
        for entity in frontier:
            for other, weight in related(view, entity):
                if other not in reached:
                    if len(reached) >= limit:
                        truncated = True
                        continue
                    reached[other] = None
                    following.append(other)
                pairs[min(entity, other), max(entity, other)] = weight
        frontier = following
    return _described(connection, view, list(reached), pairs, truncated=truncated)


def related(view: View, entity: int) -> list[tuple[int, float]]:
    """Return the entities that chunks name together with this one, and how strongly, 0..1."""
    chunks = view.chunks_of(entity)[:_CHUNKS_LOOKED_AT]
    shared: dict[int, int] = {}
    for named in view.entities_of(chunks).values():
        for other in named:
            if other != entity:
                shared[other] = shared.get(other, 0) + 1
    mentions = view.mentions
    # Of all chunks that name either, the share that names both.
    weights = {
        other: count / (int(mentions[entity]) + int(mentions[other]) - count)
        for other, count in shared.items()
    }
    return sorted(
        ((other, min(1.0, weight)) for other, weight in weights.items()),
        key=lambda pair: (-pair[1], pair[0]),
    )


def described(connection: sqlite3.Connection, view: View, numbers: list[int]) -> tuple[Entity, ...]:
    """Return entities with the first of their chunks."""
    chunks = {number: view.chunks_of(number)[:_SHOWN_CHUNKS] for number in numbers}
    ids = reading.chunk_ids(connection, {chunk for named in chunks.values() for chunk in named})
    found = reading.entities(
        connection,
        {
            number: tuple(ids[chunk] for chunk in named if chunk in ids)
            for number, named in chunks.items()
        },
    )
    return tuple(found[number] for number in numbers if number in found)


def together(
    connection: sqlite3.Connection, view: View, pairs: dict[tuple[int, int], float]
) -> list[Relation]:
    """Return pairs of entities as relations, each with the chunks that name both."""
    shown = reading.entity_names(connection, {number for pair in pairs for number in pair})
    chunks = {pair: view.chunks_of_both(*pair)[:_SHOWN_CHUNKS] for pair in pairs}
    ids = reading.chunk_ids(connection, {chunk for both in chunks.values() for chunk in both})
    return [
        Relation(
            shown[one],
            shown[other],
            TOGETHER,
            TOGETHER,
            weight,
            tuple(ids[chunk] for chunk in chunks[one, other] if chunk in ids),
        )
        for (one, other), weight in pairs.items()
        if one in shown and other in shown
    ]


def told_and_together(
    connection: sqlite3.Connection,
    view: View,
    among: list[int],
    pairs: dict[tuple[int, int], float],
) -> tuple[Relation, ...]:
    """Return what a model told between these entities, then the pairs that it did not tell of."""
    told = reading.relations(connection, among)
    known = {frozenset((link.source, link.target)) for link in told}
    derived = [
        link
        for link in together(connection, view, pairs)
        if frozenset((link.source, link.target)) not in known
    ]
    return (*told, *derived)


def _described(
    connection: sqlite3.Connection,
    view: View,
    numbers: list[int],
    pairs: dict[tuple[int, int], float],
    *,
    truncated: bool,
) -> Neighbourhood:
    most = _RELATIONS_PER_ENTITY * len(numbers)
    if len(pairs) > most:
        truncated, pairs = True, dict(nlargest(most, pairs.items(), _strength))
    relations = told_and_together(connection, view, numbers, pairs)
    return Neighbourhood(described(connection, view, numbers), relations, truncated)


def _strength(pair: tuple[tuple[int, int], float]) -> float:
    return pair[1]


def _number(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute(
        f"SELECT no FROM entity WHERE key = ? AND {_NAMED}",  # noqa: S608 - our own text
        (names.key(name),),
    ).fetchone()
    return None if row is None else row[0]
