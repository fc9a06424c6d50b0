"""What the tables say, as values: chunks, documents, entities and relations."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from dsh_lightrag.engine.model import (
    Chunk,
    Entity,
    Place,
    Progress,
    Relation,
    entity_id,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

_CHUNK = (
    'SELECT chunk.no, chunk.id, document.id, source, title, ordinal, start, "end", heading, text '
    "FROM chunk JOIN document ON document.no = chunk.document "
)


def chunks(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Chunk]:
    """Return those of the chunks that the base has, by number."""
    rows = connection.execute(
        f"{_CHUNK} WHERE chunk.no IN (SELECT value FROM json_each(?))",  # noqa: S608 - our own text
        (json.dumps(list(numbers)),),
    )
    return {row[0]: Chunk(*row[1:]) for row in rows}


def chunk_ids(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return the ids of those of the chunks that the base has, by number."""
    rows = connection.execute(
        "SELECT no, id FROM chunk WHERE no IN (SELECT value FROM json_each(?))",
        (json.dumps(list(numbers)),),
    )
    return dict(rows.fetchall())


def places(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Place]:
    """Return where chunks stand, by their ids."""
    rows = connection.execute(
        "SELECT chunk.id, document.id, source, ordinal FROM chunk "
        "JOIN document ON document.no = chunk.document "
        "WHERE chunk.id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {row[0]: Place(*row[1:]) for row in rows}


def entity_names(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return the names of entities by number."""
    rows = connection.execute(
        "SELECT no, name FROM entity WHERE no IN (SELECT value FROM json_each(?))",
        (json.dumps(list(numbers)),),
    )
    return dict(rows.fetchall())


def document_text(connection: sqlite3.Connection, document: str) -> str | None:
    """Return a document's whole text as it was stored, or None if there is no such document."""
    row = connection.execute(
        "SELECT text.text FROM document JOIN document_text AS text "
        "ON text.document = document.no WHERE id = ?",
        (document,),
    ).fetchone()
    return None if row is None else zlib.decompress(row[0]).decode()


def progress(connection: sqlite3.Connection, *, embeds: bool, extracts: bool) -> Progress:
    """Return how many chunks each index still lacks."""
    chunks, to_embed, to_extract, unembeddable, unextractable = connection.execute(
        "SELECT (SELECT count(*) FROM chunk), (SELECT count(*) FROM chunk WHERE embedded = 0), "
        "(SELECT count(*) FROM chunk WHERE extracted = 0), "
        "(SELECT total(unembeddable) FROM document), (SELECT total(unextractable) FROM document)"
    ).fetchone()
    return Progress(
        chunks=chunks,
        to_embed=to_embed if embeds else 0,
        to_extract=to_extract if extracts else 0,
        failed=int(embeds * unembeddable + extracts * unextractable),
    )


def entities(
    connection: sqlite3.Connection, numbers: dict[int, tuple[str, ...]]
) -> dict[int, Entity]:
    """Return entities by number, each with the ids of its chunks, which the caller knows.

    A type other than OTHER and the first description win.
    """
    rows = connection.execute(
        "SELECT entity.no, entity.key, name, "
        "coalesce((SELECT type FROM told WHERE entity = entity.no "
        "ORDER BY type IN ('', 'OTHER'), chunk LIMIT 1), 'OTHER'), "
        "coalesce((SELECT description FROM told WHERE entity = entity.no AND description <> '' "
        "ORDER BY chunk LIMIT 1), '') "
        "FROM json_each(?) AS asked JOIN entity ON entity.no = asked.value",
        (json.dumps(list(numbers)),),
    )
    return {
        number: Entity(entity_id(key), name, kind or "OTHER", description, numbers[number])
        for number, key, name, kind, description in rows
    }


def relations(connection: sqlite3.Connection, among: Iterable[int]) -> list[Relation]:
    """Return the relations that a model told between two of these entities, merged."""
    rows = connection.execute(
        "WITH among AS (SELECT value AS no FROM json_each(?)) "
        "SELECT source.name, target.name, relation.description, keywords, weight, chunk.id "
        "FROM relation JOIN entity AS source ON source.no = relation.source "
        "JOIN entity AS target ON target.no = relation.target "
        "JOIN chunk ON chunk.no = relation.chunk "
        "WHERE relation.source IN among AND relation.target IN among ORDER BY relation.chunk",
        (json.dumps(list(among)),),
    )
    merged: dict[tuple[str, str], Relation] = {}
    for source, target, description, keywords, weight, chunk in rows:
        before = merged.get((source, target))
        if before is None:
            merged[source, target] = Relation(
                source, target, description, keywords, weight, (chunk,)
            )
        else:
            merged[source, target] = Relation(
                source,
                target,
                before.description or description,
                before.keywords or keywords,
                max(before.weight, weight),
                (*before.chunk_ids, chunk),
            )
    return list(merged.values())
