"""What the tables say, as values: chunks, documents, entities and relations."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from dsh_lightrag.engine.model import (
    Chunk,
    DocumentState,
    DocumentStatus,
    Entity,
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
_STATE = (
    "SELECT document.id, source, title, created_at, updated_at, length, summary, tokens_spent, "
    "count(chunk.no), total(chunk.embedded), total(chunk.extracted = 1), "
    "total(chunk.extracted = 2), max(chunk.error) "
    "FROM document LEFT JOIN chunk ON chunk.document = document.no "
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


def document_states(
    connection: sqlite3.Connection,
    *,
    embeds: bool,
    extracts: bool,
    document: str | None = None,
) -> list[DocumentState]:
    """Return how far each document is, the newest first; `embeds`, `extracts`: what is needed."""
    where, values = ("WHERE document.id = ? ", (document,)) if document is not None else ("", ())
    rows = connection.execute(
        f"{_STATE} {where} GROUP BY document.no ORDER BY document.no DESC", values
    )
    return [_state(row, embeds=embeds, extracts=extracts) for row in rows]


def progress(connection: sqlite3.Connection, *, embeds: bool, extracts: bool) -> Progress:
    """Return how many chunks each index still lacks."""
    chunks, to_embed, to_extract, failed = connection.execute(
        "SELECT (SELECT count(*) FROM chunk), (SELECT count(*) FROM chunk WHERE embedded = 0), "
        "(SELECT count(*) FROM chunk WHERE extracted = 0), "
        "(SELECT count(*) FROM chunk WHERE extracted = 2)"
    ).fetchone()
    return Progress(
        chunks=chunks,
        to_embed=to_embed if embeds else 0,
        to_extract=to_extract if extracts else 0,
        failed=failed if extracts else 0,
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


def _state(row: tuple[Any, ...], *, embeds: bool, extracts: bool) -> DocumentState:
    id_, source, title, created, updated, length, summary, tokens, *counts, error = row
    total, embedded, extracted, failed = map(int, counts)
    if extracts and failed:
        status = DocumentStatus.FAILED
    elif (embeds and embedded < total) or (extracts and extracted < total):
        status = DocumentStatus.PROCESSING
    else:
        status = DocumentStatus.PROCESSED
    return DocumentState(
        id=id_,
        source=source,
        title=title,
        status=status,
        created_at=created,
        updated_at=updated,
        length=length,
        chunks=total,
        embedded=embedded,
        extracted=extracted,
        summary=summary,
        error=error or "",
        tokens_spent=tokens,
    )
