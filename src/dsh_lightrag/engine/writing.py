"""Documents in and out of the tables: each function is the body of one transaction.

Every function returns what the indexes in memory must learn once the transaction is durable.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.engine import (
    chunking,
    edges,
    entities,
    keywords,
    local_extraction,
    names,
    spelling,
    titles,
)
from dsh_lightrag.engine.change import Change
from dsh_lightrag.engine.chunking import ChunkSizes, split
from dsh_lightrag.engine.edges import Role
from dsh_lightrag.engine.model import Document, Extraction, Piece, chunk_id, document_id
from dsh_lightrag.text import clean, clean_line

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

SUMMARY_CHARACTERS = 250


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document with everything about it that needs no database: done before the writer waits.

    `go_on` is asked now and then while it is stored, and raises to break off.
    """

    document: Document
    digest: bytes
    pieces: list[Piece]
    texts: list[str]
    extractions: list[Extraction]
    words: spelling.Tally
    rules: str
    go_on: Callable[[], None]


def prepare(
    document: Document, sizes: ChunkSizes, go_on: Callable[[], None] = lambda: None
) -> Prepared:
    """Clean, cut and read a document; `go_on`, asked now and then, raises to break off."""
    text = clean(document.text)
    ready = Document(
        text=text,
        source=clean_line(document.source),
        title=clean_line(document.title),
        id=clean_line(document.id) or document_id(text),
        track=clean_line(document.track),
    )
    go_on()
    pieces = split(text, sizes)
    texts = [text[piece.start : piece.end] for piece in pieces]
    found = []
    for part in texts:
        go_on()
        found.append(local_extraction.extract(part))
    go_on()
    words = spelling.tally(ready.title, texts)
    return Prepared(ready, text_digest(text), pieces, texts, found, words, rules_of(sizes), go_on)


def rules_of(sizes: ChunkSizes) -> str:
    """Return what a document's chunks and names depend on besides its text."""
    return f"{chunking.VERSION}:{sizes.tokens}:{sizes.overlap} {local_extraction.VERSION}"


def text_digest(text: str) -> bytes:
    """Return what equal texts have in common."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def insert(
    connection: sqlite3.Connection, prepared: Prepared, known: titles.Titles, now: float
) -> Change:
    """Store a document that is not there yet, found at once by its words and names."""
    document = prepared.document
    title = names.title_key(document.title)
    number = _insert_document(connection, prepared, title, now)
    chunks = _insert_chunks(connection, number, prepared)
    change = Change()
    change.terms |= keywords.add(
        connection,
        (
            (chunk, keywords.body(document.title, piece.heading, text))
            for chunk, piece, text in zip(chunks, prepared.pieces, prepared.texts, strict=True)
        ),
    )
    naming = entities.Naming()
    for chunk, text, extraction in zip(chunks, prepared.texts, prepared.extractions, strict=True):
        prepared.go_on()
        naming.by_chunk[chunk] = {}  # a chunk that names nothing still counts as one
        _name_extracted(naming, chunk, extraction)
        for key in known.mentioned(names.words(text), title):
            naming.add(chunk, key, key, 0, Role.LINKED)
        if title:
            naming.add(chunk, title, names.shown_title(document.title), 0, Role.TITLE)
    if title:
        change.titles[title] += 1
        entities.link_title(connection, naming, title, known)
    created = entities.store_edges(connection, naming, change)
    changed = spelling.change(connection, prepared.words, 1)
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
        terms=dict.fromkeys(chunk[0] for chunk in chunks),
    )
    lost: Counter[tuple[int, bool]] = Counter()
    for chunk, packed in entities.edges_of(connection, change.edges):
        for edge in edges.unpack(packed):
            lost[edge.entity, Role.CERTAIN in edge.role] += 1
            if Role.LINKED in edge.role:
                connection.execute(
                    "DELETE FROM title_link WHERE entity = ? AND chunk = ?", (edge.entity, chunk)
                )
    connection.execute("DELETE FROM document WHERE no = ?", (number,))
    if title_key:
        change.titles[title_key] -= 1
        entities.unlink_title(connection, title_key, change, lost)
    entities.forget(connection, lost)
    words = spelling.tally(title, (text for _, _, text in chunks))
    changed = spelling.change(connection, words, -1)
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
    before = connection.execute(
        "SELECT created_at, tokens_spent FROM document WHERE id = ?", (id_,)
    ).fetchone()
    kept = {body: vector for _, body, vector in _vectors(connection, id_) if vector is not None}
    removed = delete(connection, id_)
    if removed is not None:
        change.add(removed)
        known = known.after(removed.titles)
    change.add(insert(connection, prepared, known, now))
    if before is not None:
        connection.execute(
            "UPDATE document SET created_at = ?, tokens_spent = ? WHERE id = ?", (*before, id_)
        )
    for chunk, body, _ in _vectors(connection, id_):
        if body in kept:  # a passage that did not change keeps its vector
            change.vectors[chunk] = kept[body]
            connection.execute("INSERT INTO vector VALUES (?, ?)", (chunk, kept[body]))
            connection.execute("UPDATE chunk SET embedded = 1 WHERE no = ?", (chunk,))
    return removed is None


def tell(connection: sqlite3.Connection, chunk: int, extraction: Extraction) -> Change:
    """Add to the graph what a chat model told about a chunk."""
    naming = entities.Naming()
    _name_extracted(naming, chunk, extraction)
    for link in extraction.relations:
        for name in (link.source, link.target):
            if key := names.key(name):
                naming.add(chunk, key, name, 0, Role.CERTAIN)
    change = Change()
    created = entities.store_edges(connection, naming, change)
    change.common = spelling.judge(connection, set(), created)
    numbers = entities.numbers_of(connection, naming.by_chunk.get(chunk, {}))
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
    connection: sqlite3.Connection, prepared: Prepared, title: str, now: float
) -> int:
    document = prepared.document
    summary = " ".join(document.text[: 2 * SUMMARY_CHARACTERS].split())[:SUMMARY_CHARACTERS]
    cursor = connection.execute(
        "INSERT INTO document (id, source, title, title_key, created_at, updated_at, length, "
        "summary, track, digest, rules) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING no",
        (
            document.id,
            document.source,
            document.title,
            title,
            now,
            now,
            len(document.text),
            summary,
            document.track,
            prepared.digest,
            prepared.rules,
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


def _name_extracted(naming: entities.Naming, chunk: int, extraction: Extraction) -> None:
    for found in extraction.entities:
        if key := names.key(found.name):
            role = Role.CERTAIN if found.certain else Role.NAMED
            naming.add(chunk, key, found.name, found.count, role)
