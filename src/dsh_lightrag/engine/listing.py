"""The list of documents, with those that were not taken in: filtered, sorted and cut in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.engine.model import DocumentState, DocumentStatus, Listed

if TYPE_CHECKING:
    import sqlite3

    from dsh_lightrag.engine.model import Listing

# What a document still lacks, where `:embeds` and `:extracts` say what is made of each chunk.
LACKS = "((:embeds AND embedded < chunks) OR (:extracts AND extracted < chunks))"
_STATUS = (
    "CASE WHEN (:embeds AND unembeddable > 0) OR (:extracts AND unextractable > 0) "
    f"OR (fault <> '' AND {LACKS}) THEN 'failed' "
    f"WHEN NOT {LACKS} THEN 'processed' "
    "WHEN (:embeds AND embedded > 0) OR (:extracts AND extracted > 0) THEN 'processing' "
    "ELSE 'pending' END"
)
_ROWS = (
    "WITH row AS (SELECT no, id, source, title, created_at, updated_at, length, chunks, embedded, "  # noqa: S608 - our own text
    "extracted, summary, fault, tokens_spent, track, '' AS original, '' AS original_track, "
    f"{_STATUS} AS status FROM document "
    "UNION ALL SELECT NULL, id, source, '', created_at, created_at, length, 0, 0, 0, summary, "
    "reason, 0, track, original, original_track, 'failed' FROM failure) "
)
_COLUMNS = (
    "id, source, title, status, created_at, updated_at, length, chunks, embedded, extracted, "
    "summary, CASE WHEN status <> 'failed' THEN '' ELSE coalesce((SELECT error FROM chunk "
    "WHERE document = row.no AND error <> '' ORDER BY ordinal LIMIT 1), fault) END, "
    "tokens_spent, track, original, original_track"
)


def listed(connection: sqlite3.Connection, wanted: Listing, needs: dict[str, bool]) -> Listed:
    """Return a part of the list; `needs`: whether it `embeds` and `extracts`."""
    counts = connection.execute(
        f"{_ROWS} SELECT status, count(*) FROM row GROUP BY status",  # noqa: S608 - our own text
        needs,
    )
    counted = {DocumentStatus(status): number for status, number in counts}
    statuses = wanted.statuses or tuple(DocumentStatus)
    # The order comes from a closed set of names, and so do the statuses.
    direction = "DESC" if wanted.descending else "ASC"
    among = ", ".join(f"'{status.value}'" for status in statuses)
    rows = connection.execute(
        f"{_ROWS} SELECT {_COLUMNS} FROM row WHERE status IN ({among}) "  # noqa: S608 - as above
        f"ORDER BY {wanted.order} {direction}, id LIMIT :limit OFFSET :offset",
        needs | {"limit": wanted.limit, "offset": wanted.offset},
    )
    return Listed(
        tuple(map(_state, rows)), sum(counted.get(status, 0) for status in statuses), counted
    )


def all_documents(connection: sqlite3.Connection, needs: dict[str, bool]) -> list[DocumentState]:
    """Return every document that was taken in, the newest first."""
    return _where(connection, "no IS NOT NULL ORDER BY no DESC", needs)


def tracked(
    connection: sqlite3.Connection, track: str, needs: dict[str, bool]
) -> list[DocumentState]:
    """Return what one insertion brought, in the order in which it came."""
    return _where(connection, "track = :track ORDER BY created_at, no", needs | {"track": track})


def one(
    connection: sqlite3.Connection, document: str, needs: dict[str, bool]
) -> DocumentState | None:
    """Return a document, or one that was not taken in; None when there is neither."""
    found = _where(connection, "id = :id", needs | {"id": document})
    return found[0] if found else None


def _where(
    connection: sqlite3.Connection, condition: str, values: dict[str, Any]
) -> list[DocumentState]:
    rows = connection.execute(f"{_ROWS} SELECT {_COLUMNS} FROM row WHERE {condition}", values)  # noqa: S608 - our own text
    return [_state(row) for row in rows]


def _state(row: tuple[Any, ...]) -> DocumentState:
    id_, source, title, status, *rest = row
    created, updated, length, chunks, embedded, extracted, summary, error, *others = rest
    return DocumentState(
        id=id_,
        source=source,
        title=title,
        status=DocumentStatus(status),
        created_at=created,
        updated_at=updated,
        length=length,
        chunks=chunks,
        embedded=embedded,
        extracted=extracted,
        summary=summary,
        error=error,
        tokens_spent=others[0],
        track=others[1],
        original=others[2],
        original_track=others[3],
    )
