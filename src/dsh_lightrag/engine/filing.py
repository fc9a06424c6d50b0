"""What is filed beside the texts: duplicates and failures, promised deletions, and clearing.

Each function is the body of one transaction, or a part of it.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import TYPE_CHECKING

from dsh_lightrag.engine import writing
from dsh_lightrag.engine.faults import DocumentExistsError, UnknownDocumentError
from dsh_lightrag.engine.listing import LACKS
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from dsh_lightrag.engine.change import Change
    from dsh_lightrag.engine.titles import Titles

_REASON_CHARACTERS = 1000
_NAMED_IDS = 10
_NAMED_CHARACTERS = 64
DUPLICATE = "Identical content already exists under another filename."
# Emptied in this order; what refers to a document or a chunk goes along with it.
_TABLES = (
    "doomed",
    "failure",
    "document",
    "title",
    "title_link",
    "entity",
    "entity_word",
    "word",
)


def file(
    connection: sqlite3.Connection,
    prepared: Sequence[writing.Prepared],
    known: Titles,
    now: float,
    change: Change,
) -> list[str]:
    """Store documents under ids that are free, or none of them; return the ids.

    A text that is there already, under another id, is filed as a failure that names it.
    """
    refuse_taken(connection, [item.document.id for item in prepared])
    ids = []
    titles = known.copied() if len(prepared) > 1 else known
    for item in prepared:
        document = item.document
        connection.execute("DELETE FROM failure WHERE source = ?", (document.source,))
        twin = connection.execute(
            "SELECT id, track FROM document WHERE digest = ? LIMIT 1", (item.digest,)
        ).fetchone()
        if twin is None:
            inserted = writing.insert(connection, item, titles, now)
            change.add(inserted)
            if titles is not known:
                titles.update(inserted.titles)
            ids.append(document.id)
        else:
            ids.append(_refuse_twin(connection, item, twin, now))
    return ids


def refuse_taken(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Raise when any of the ids is taken, also by another one of them."""
    taken = connection.execute(
        "SELECT id FROM document WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1",
        (json.dumps(list(ids)),),
    ).fetchone()
    twice = next((id_ for id_, times in Counter(ids).items() if times > 1), None)
    if taken or twice:
        raise DocumentExistsError(
            f"There is a document under the id {taken[0] if taken else twice}.",
            "Delete it before another one is filed under its id.",
        )


def record_failure(
    connection: sqlite3.Connection, source: str, reason: str, track: str, now: float
) -> str:
    """File a document that could not be read, in place of its last such failure."""
    source = clean_line(source)
    connection.execute("DELETE FROM failure WHERE source = ? AND original = ''", (source,))
    id_ = f"error-{uuid.uuid4().hex}"
    reason = clean_line(reason)[:_REASON_CHARACTERS]
    summary = f"[File Extraction]{reason}"[: writing.SUMMARY_CHARACTERS]
    connection.execute(
        "INSERT INTO failure (id, source, track, created_at, length, summary, reason) "
        "VALUES (?, ?, ?, ?, 0, ?, ?)",
        (id_, source, track, now, summary, reason),
    )
    return id_


def doom(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Promise that these documents will be deleted; refuse all when there is one unknown."""
    wanted = json.dumps(list(ids))
    unknown = connection.execute(
        "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM document) "
        "AND value NOT IN (SELECT id FROM failure)",
        (wanted,),
    ).fetchall()
    if unknown:
        raise UnknownDocumentError(
            f"There is no document {_some([row[0] for row in unknown])}.",
            "List the documents to see their ids.",
        )
    connection.execute("INSERT OR IGNORE INTO doomed SELECT value FROM json_each(?)", (wanted,))


def _some(ids: Sequence[str]) -> str:
    """Return ids as a message names them: the first few, each cut to what an id is long."""
    named = ", ".join(one[:_NAMED_CHARACTERS] for one in ids[:_NAMED_IDS])
    more = len(ids) - _NAMED_IDS
    return f"{named} and {more} more" if more > 0 else named


def doomed(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of what is still to be deleted."""
    return [row[0] for row in connection.execute("SELECT id FROM doomed ORDER BY id")]


def delete_doomed(connection: sqlite3.Connection, id_: str, change: Change) -> None:
    """Keep one promise: remove a document, or the row of a failure."""
    removed = writing.delete(connection, id_)
    if removed is not None:
        change.add(removed)
    connection.execute("DELETE FROM failure WHERE id = ?", (id_,))
    connection.execute("DELETE FROM doomed WHERE id = ?", (id_,))


def clear(connection: sqlite3.Connection, change: Change) -> int:
    """Remove everything that was inserted; return how many documents and failures there were."""
    (count,) = connection.execute(
        "SELECT (SELECT count(*) FROM document) + (SELECT count(*) FROM failure)"
    ).fetchone()
    chunks = _column(connection, "SELECT no FROM chunk")
    change.edges, change.terms = dict.fromkeys(chunks), dict.fromkeys(chunks)
    change.vectors = dict.fromkeys(_column(connection, "SELECT chunk FROM vector"))
    change.common = dict.fromkeys(
        _column(connection, "SELECT no FROM entity WHERE common = 1"), False
    )
    for key, documents in connection.execute("SELECT key, documents FROM title"):
        change.titles[key] -= documents
    connection.execute("INSERT INTO keyword (keyword) VALUES ('delete-all')")
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names from the list above
    found: int = count
    return found


def note_outage(connection: sqlite3.Connection, problem: str, needs: Mapping[str, bool]) -> None:
    """Tell each document that waits for a model why it waits; an empty text: no more."""
    connection.execute(
        "UPDATE document SET fault = :problem WHERE fault <> :problem "  # noqa: S608 - our own text
        f"AND (:problem = '' OR {LACKS})",
        {**needs, "problem": clean_line(problem)[:_REASON_CHARACTERS]},
    )


def _refuse_twin(
    connection: sqlite3.Connection,
    item: writing.Prepared,
    twin: tuple[str, str],
    now: float,
) -> str:
    document = item.document
    id_ = f"dup-{uuid.uuid4().hex}"
    connection.execute(
        "INSERT INTO failure (id, source, track, created_at, length, summary, reason, original, "
        "original_track) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id_,
            document.source,
            document.track,
            now,
            len(document.text),
            f"[DUPLICATE:content_hash] Original document: {twin[0]}",
            f"{DUPLICATE} Original doc_id: {twin[0]}",
            *twin,
        ),
    )
    return id_


def _column(connection: sqlite3.Connection, statement: str) -> Iterable[int]:
    return [row[0] for row in connection.execute(statement).fetchall()]
