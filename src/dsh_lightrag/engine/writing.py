"""Documents in and out of the tables: each function is the body of one transaction.

Every function returns what the indexes in memory must learn once the transaction is durable.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.engine import edges, keywords, local_extraction, names, spelling, titles
from dsh_lightrag.engine.chunking import ChunkSizes, split
from dsh_lightrag.engine.edges import Edge, Role
from dsh_lightrag.engine.model import Document, Extraction, Piece, chunk_id, document_id
from dsh_lightrag.text import clean, clean_line

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

_SUMMARY_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document with everything about it that needs no database: done before the writer waits."""

    document: Document
    pieces: list[Piece]
    texts: list[str]
    extractions: list[Extraction]


@dataclass(slots=True)
class Change:
    """What a transaction changed, for the indexes in memory; None means that it is gone."""

    edges: dict[int, bytes | None] = field(default_factory=dict)
    common: dict[int, bool] = field(default_factory=dict)
    vectors: dict[int, bytes | None] = field(default_factory=dict)
    titles: Counter[str] = field(default_factory=Counter)

    def add(self, later: Change) -> None:
        """Take in a change that the same transaction made after this one."""
        self.edges |= later.edges
        self.common |= later.common
        self.vectors |= later.vectors
        self.titles.update(later.titles)


@dataclass(slots=True)
class _Naming:
    """Edges before the entities have numbers: per chunk and key, a name, a count and roles."""

    by_chunk: dict[int, dict[str, tuple[str, int, Role]]] = field(default_factory=dict)

    def add(self, chunk: int, key: str, name: str, count: int, role: Role) -> None:
        names_ = self.by_chunk.setdefault(chunk, {})
        shown, before, roles = names_.get(key, (name, 0, Role(0)))
        names_[key] = (shown, before + count, roles | role)


def prepare(document: Document, sizes: ChunkSizes) -> Prepared:
    """Clean, cut and read a document."""
    text = clean(document.text)
    ready = Document(
        text=text,
        source=clean_line(document.source),
        title=clean_line(document.title),
        id=clean_line(document.id) or document_id(text),
    )
    pieces = split(text, sizes)
    texts = [text[piece.start : piece.end] for piece in pieces]
    return Prepared(ready, pieces, texts, [local_extraction.extract(part) for part in texts])


def insert(
    connection: sqlite3.Connection, prepared: Prepared, known: titles.Titles, now: float
) -> Change:
    """Store a document that is not there yet, found at once by its words and names."""
    document = prepared.document
    title = names.title_key(document.title)
    number = _insert_document(connection, document, title, now)
    chunks = _insert_chunks(connection, number, prepared)
    keywords.add(
        connection,
        (
            (chunk, keywords.body(document.title, piece.heading, text))
            for chunk, piece, text in zip(chunks, prepared.pieces, prepared.texts, strict=True)
        ),
    )
    change = Change()
    naming = _Naming()
    for chunk, text, extraction in zip(chunks, prepared.texts, prepared.extractions, strict=True):
        naming.by_chunk[chunk] = {}  # a chunk that names nothing still counts as one
        _name_extracted(naming, chunk, extraction)
        for key in known.mentioned(names.words(text), title):
            naming.add(chunk, key, key, 0, Role.LINKED)
        if title:
            naming.add(chunk, title, names.shown_title(document.title), 0, Role.TITLE)
    if title:
        change.titles[title] += 1
        _link_title(connection, naming, title, known, before=chunks[0] if chunks else None)
    created = _store_edges(connection, naming, change)
    changed = spelling.change(connection, document.title, prepared.texts, 1)
    change.common = spelling.judge(connection, changed, created)
    return change


def delete(connection: sqlite3.Connection, document: str) -> Change | None:
    """Remove a document and all that only it contributed; None if there is no such document."""
    row = connection.execute(
        "SELECT no, title, title_key FROM document WHERE id = ?", (document,)
    ).fetchone()
    if row is None:
        return None
    number, title, title_key = row
    chunks = connection.execute(
        "SELECT no, heading, text FROM chunk WHERE document = ?", (number,)
    ).fetchall()
    keywords.remove(
        connection,
        ((chunk, keywords.body(title, heading, text)) for chunk, heading, text in chunks),
    )
    change = Change(
        edges=dict.fromkeys(chunk[0] for chunk in chunks),
        vectors=dict.fromkeys(chunk[0] for chunk in chunks),
    )
    lost: Counter[tuple[int, bool]] = Counter()
    for chunk, packed in _packed(connection, change.edges):
        for edge in edges.unpack(packed):
            lost[edge.entity, Role.CERTAIN in edge.role] += 1
            if Role.LINKED in edge.role:
                connection.execute(
                    "DELETE FROM title_link WHERE entity = ? AND chunk = ?", (edge.entity, chunk)
                )
    connection.execute("DELETE FROM document WHERE no = ?", (number,))
    if title_key:
        change.titles[title_key] -= 1
        _unlink_title(connection, title_key, change, lost)
    _forget(connection, lost)
    changed = spelling.change(connection, title, [text for _, _, text in chunks], -1)
    change.common = spelling.judge(connection, changed, ())
    return change


def replace(
    connection: sqlite3.Connection,
    prepared: Prepared,
    known: titles.Titles,
    now: float,
    change: Change,
) -> bool:
    """Store a document in place of the one with its id; tell whether there was none."""
    id_ = prepared.document.id
    created = connection.execute("SELECT created_at FROM document WHERE id = ?", (id_,)).fetchone()
    kept = {body: vector for _, body, vector in _vectors(connection, id_) if vector is not None}
    removed = delete(connection, id_)
    if removed is not None:
        change.add(removed)
        known = known.after(removed.titles)
    change.add(insert(connection, prepared, known, now))
    if created is not None:
        connection.execute("UPDATE document SET created_at = ? WHERE id = ?", (*created, id_))
    for chunk, body, _ in _vectors(connection, id_):
        if body in kept:  # a passage that did not change keeps its vector
            change.vectors[chunk] = kept[body]
            connection.execute("INSERT INTO vector VALUES (?, ?)", (chunk, kept[body]))
            connection.execute("UPDATE chunk SET embedded = 1 WHERE no = ?", (chunk,))
    return removed is None


def tell(connection: sqlite3.Connection, chunk: int, extraction: Extraction) -> Change:
    """Add to the graph what a chat model told about a chunk."""
    naming = _Naming()
    _name_extracted(naming, chunk, extraction)
    for link in extraction.relations:
        for name in (link.source, link.target):
            if key := names.key(name):
                naming.add(chunk, key, name, 0, Role.CERTAIN)
    change = Change()
    created = _store_edges(connection, naming, change)
    change.common = spelling.judge(connection, set(), created)
    numbers = _numbers(connection, naming.by_chunk.get(chunk, {}))
    connection.executemany(
        "INSERT INTO told VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (chunk, numbers[key], found.type, found.description)
            for found in extraction.entities
            if (key := names.key(found.name))
        ],
    )
    connection.executemany(
        "INSERT INTO relation VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (
                chunk,
                numbers[source],
                numbers[target],
                link.description,
                link.keywords,
                min(1.0, max(0.0, link.weight)),
            )
            for link in extraction.relations
            if (source := names.key(link.source)) and (target := names.key(link.target))
        ],
    )
    return change


def load_titles(connection: sqlite3.Connection) -> titles.Titles:
    """Return the titles of a base that is being opened."""
    return titles.Titles(dict(connection.execute("SELECT key, documents FROM title").fetchall()))


def _vectors(connection: sqlite3.Connection, document: str) -> list[tuple[int, str, bytes | None]]:
    """Return number, body and vector of a document's chunks."""
    rows = connection.execute(
        "SELECT chunk.no, title, heading, text, data FROM document "
        "JOIN chunk ON chunk.document = document.no "
        "LEFT JOIN vector ON vector.chunk = chunk.no WHERE document.id = ?",
        (document,),
    )
    return [
        (chunk, keywords.body(title, heading, text), data)
        for chunk, title, heading, text, data in rows.fetchall()
    ]


def _insert_document(
    connection: sqlite3.Connection, document: Document, title: str, now: float
) -> int:
    summary = " ".join(document.text[: 2 * _SUMMARY_CHARACTERS].split())[:_SUMMARY_CHARACTERS]
    cursor = connection.execute(
        "INSERT INTO document (id, source, title, title_key, created_at, updated_at, length, "
        "summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING no",
        (
            document.id,
            document.source,
            document.title,
            title,
            now,
            now,
            len(document.text),
            summary,
        ),
    )
    number: int = cursor.fetchone()[0]
    connection.execute(
        "INSERT INTO document_text VALUES (?, ?)",
        (number, zlib.compress(document.text.encode(), 3)),
    )
    return number


def _insert_chunks(connection: sqlite3.Connection, document: int, prepared: Prepared) -> list[int]:
    """Store the chunks under numbers that no chunk ever had, and return these."""
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunk'").fetchone()
    first = (last[0] if last else 0) + 1
    occurrences: Counter[str] = Counter()
    rows = []
    for ordinal, (piece, text) in enumerate(zip(prepared.pieces, prepared.texts, strict=True)):
        stable = chunk_id(prepared.document.id, text, occurrences[text])
        occurrences[text] += 1
        place = (piece.start, piece.end, piece.heading)
        rows.append((first + ordinal, stable, document, ordinal, *place, text))
    connection.executemany(
        'INSERT INTO chunk (no, id, document, ordinal, start, "end", heading, text) '
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    return [row[0] for row in rows]


def _name_extracted(naming: _Naming, chunk: int, extraction: Extraction) -> None:
    for found in extraction.entities:
        if key := names.key(found.name):
            role = Role.CERTAIN if found.certain else Role.NAMED
            naming.add(chunk, key, found.name, found.count, role)


def _link_title(
    connection: sqlite3.Connection,
    naming: _Naming,
    title: str,
    known: titles.Titles,
    before: int | None,
) -> None:
    """Count a document for its title, and link a title that is new to the chunks before."""
    connection.execute(
        "INSERT INTO title VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET documents = documents + 1",
        (title,),
    )
    if title in known or not titles.links(title):
        return
    for chunk in titles.chunks_naming(connection, title):
        if before is None or chunk < before:
            naming.add(chunk, title, title, 0, Role.LINKED)


def _unlink_title(
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
    for chunk, packed in _packed(connection, linked):
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


def _store_edges(connection: sqlite3.Connection, naming: _Naming, change: Change) -> set[str]:
    """Join the edges to those that the chunks have; return the keys of entities that are new."""
    shown = {key: name for named in naming.by_chunk.values() for key, (name, _, _) in named.items()}
    created = _create_entities(connection, shown)
    numbers = _numbers(connection, shown)
    gained: Counter[tuple[int, bool]] = Counter()
    links = []
    packed = dict(_packed(connection, naming.by_chunk))
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
    known = _numbers(connection, shown)
    created = [key for key in shown if key not in known]
    rows = connection.executemany(
        "INSERT INTO entity (key, name) VALUES (?, ?)", [(key, shown[key]) for key in created]
    )
    del rows
    numbers = _numbers(connection, created)
    connection.executemany(
        "INSERT INTO entity_word VALUES (?, ?)",
        [(word, numbers[key]) for key in created for word in set(key.split(" "))],
    )
    return set(created)


def _forget(connection: sqlite3.Connection, lost: Counter[tuple[int, bool]]) -> None:
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


def _numbers(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, int]:
    """Return the numbers of those entities that exist."""
    rows = connection.execute(
        "SELECT key, no FROM entity WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(keys)),),
    )
    return dict(rows.fetchall())


def _packed(connection: sqlite3.Connection, chunks: Iterable[int]) -> list[tuple[int, bytes]]:
    """Return the stored edges of those chunks that have any."""
    return connection.execute(
        "SELECT chunk, edges FROM mention WHERE chunk IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chunks)),),
    ).fetchall()
