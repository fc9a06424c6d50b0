"""Entities and the edges of chunks to them, in the tables: made, joined, counted, forgotten.

An entity is there as long as a chunk names it. A title is linked to the chunks that mention it,
before and after its document came, for as long as a document has it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.engine import edges, titles
from dsh_lightrag.engine.edges import Edge, Role

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from dsh_lightrag.engine.change import Change


@dataclass(slots=True)
class Naming:
    """Edges before the entities have numbers: per chunk and key, a name, a count and roles."""

    by_chunk: dict[int, dict[str, tuple[str, int, Role]]] = field(default_factory=dict)

    def add(self, chunk: int, key: str, name: str, count: int, role: Role) -> None:
        """Add an edge, to one of the same chunk and key if there is one."""
        names_ = self.by_chunk.setdefault(chunk, {})
        shown, before, roles = names_.get(key, (name, 0, Role(0)))
        names_[key] = (shown, before + count, roles | role)


def store_edges(connection: sqlite3.Connection, naming: Naming, change: Change) -> set[str]:
    """Join the edges to those that the chunks have; return the keys of entities that are new."""
    shown = {key: name for named in naming.by_chunk.values() for key, (name, _, _) in named.items()}
    created = _create_entities(connection, shown)
    numbers = numbers_of(connection, shown)
    gained: Counter[tuple[int, bool]] = Counter()
    links = []
    packed = dict(edges_of(connection, naming.by_chunk))
    for chunk, named in naming.by_chunk.items():
        have = edges.unpack(packed.get(chunk, b""))
        before = {edge.entity: edge.role for edge in have}
        for key, (_, count, role) in named.items():
            edge = Edge(numbers[key], count, role)
            gained[edge.entity, False] += edge.entity not in before
            gained[edge.entity, True] += Role.CERTAIN in role and Role.CERTAIN not in before.get(
                edge.entity, Role(0)
            )
            if Role.LINKED in role:
                links.append((edge.entity, chunk))
            have = edges.joined(have, edge) if edge.entity in before else [*have, edge]
        change.edges[chunk] = edges.pack(have)
    connection.executemany(
        "INSERT OR REPLACE INTO mention VALUES (?, ?)",
        [(chunk, change.edges[chunk]) for chunk in naming.by_chunk],
    )
    connection.executemany("INSERT OR IGNORE INTO title_link VALUES (?, ?)", links)
    connection.executemany(
        "UPDATE entity SET mentions = mentions + ?, certain = certain + ? WHERE no = ?",
        [
            (gained[number, False], gained[number, True], number)
            for number in {entity for entity, _ in gained}
        ],
    )
    return created


def _create_entities(connection: sqlite3.Connection, shown: dict[str, str]) -> set[str]:
    """Make an entity of every key that is none yet, and return those keys."""
    known = numbers_of(connection, shown)
    created = [key for key in shown if key not in known]
    connection.executemany(
        "INSERT INTO entity (key, name) VALUES (?, ?)", [(key, shown[key]) for key in created]
    )
    numbers = numbers_of(connection, created)
    connection.executemany(
        "INSERT INTO entity_word VALUES (?, ?)",
        [(word, numbers[key]) for key in created for word in set(key.split(" "))],
    )
    return set(created)


def forget(connection: sqlite3.Connection, lost: Counter[tuple[int, bool]]) -> None:
    """Count lost edges; an entity that no chunk names any more is gone."""
    numbers = {entity for entity, _ in lost}
    connection.executemany(
        "UPDATE entity SET mentions = mentions - ?, certain = certain - ? WHERE no = ?",
        [
            (lost[number, False] + lost[number, True], lost[number, True], number)
            for number in numbers
        ],
    )
    gone = connection.execute(
        "SELECT no, key FROM entity WHERE mentions <= 0 AND no IN (SELECT value FROM json_each(?))",
        (json.dumps(list(numbers)),),
    ).fetchall()
    connection.executemany(
        "DELETE FROM entity_word WHERE word = ? AND entity = ?",
        [(word, number) for number, key in gone for word in set(key.split(" "))],
    )
    connection.executemany("DELETE FROM entity WHERE no = ?", [(number,) for number, _ in gone])


def numbers_of(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, int]:
    """Return the numbers of those entities that exist."""
    rows = connection.execute(
        "SELECT key, no FROM entity WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(keys)),),
    )
    return dict(rows.fetchall())


def edges_of(connection: sqlite3.Connection, chunks: Iterable[int]) -> list[tuple[int, bytes]]:
    """Return the stored edges of those chunks that have any."""
    return connection.execute(
        "SELECT chunk, edges FROM mention WHERE chunk IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chunks)),),
    ).fetchall()


def link_title(
    connection: sqlite3.Connection, naming: Naming, title: str, known: titles.Titles
) -> None:
    """Count a document for its title; link a new title to all chunks that mention it."""
    connection.execute(
        "INSERT INTO title VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET documents = documents + 1",
        (title,),
    )
    if title in known or not titles.links(title):
        return
    for chunk in titles.chunks_naming(connection, title):
        naming.add(chunk, title, title, 0, Role.LINKED)


def unlink_title(
    connection: sqlite3.Connection,
    title: str,
    change: Change,
    lost: Counter[tuple[int, bool]],
) -> None:
    """Take a document off its title; the last one takes the links to it along."""
    connection.execute("UPDATE title SET documents = documents - 1 WHERE key = ?", (title,))
    if not connection.execute(
        "DELETE FROM title WHERE key = ? AND documents <= 0", (title,)
    ).rowcount:
        return
    found = connection.execute("SELECT no FROM entity WHERE key = ?", (title,)).fetchone()
    if found is None:
        return
    linked = [
        row[0] for row in connection.execute("SELECT chunk FROM title_link WHERE entity = ?", found)
    ]
    for chunk, packed in edges_of(connection, linked):
        kept = []
        for edge in edges.unpack(packed):
            if edge.entity == found[0]:
                role = edge.role & ~Role.LINKED
                if not role:
                    lost[edge.entity, False] += 1
                    continue
                kept.append(Edge(edge.entity, edge.count, role))
            else:
                kept.append(edge)
        change.edges[chunk] = edges.pack(kept)
        connection.execute(
            "UPDATE mention SET edges = ? WHERE chunk = ?", (change.edges[chunk], chunk)
        )
    connection.execute("DELETE FROM title_link WHERE entity = ?", found)
