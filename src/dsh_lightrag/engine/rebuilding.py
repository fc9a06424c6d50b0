"""What a base is made anew from its texts: when the rules that made it have changed.

A base remembers the version of every rule. Opened by a version with another rule for terms, the
keyword index is made again in one transaction. Documents that other rules cut or read answer as
they are until they are marked; then each is cut and read anew in a transaction of its own.
"""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from dsh_lightrag.engine import change, keywords, terms, writing
from dsh_lightrag.engine.model import Document

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from dsh_lightrag.engine.catchup import Changing
    from dsh_lightrag.engine.chunking import ChunkSizes
    from dsh_lightrag.engine.store import Store
    from dsh_lightrag.engine.titles import Titles


def versions() -> dict[str, str]:
    """Return the versions of the rules as a new base remembers them."""
    return {"terms": str(terms.VERSION)}


def bring_up_to_date(
    connection: sqlite3.Connection, meta: Mapping[str, str], embedder: str
) -> None:
    """Make anew whatever other rules than today's, or another embedder, have made."""
    if meta["embedder"] != embedder:
        drop_vectors(connection)
        change.forget_all(connection)
        _remember(connection, "embedder", embedder)
    if meta.get("terms") != str(terms.VERSION):
        rebuild_keywords(connection)
        change.forget_all(connection)
        _remember(connection, "terms", str(terms.VERSION))


def outdated(connection: sqlite3.Connection, rules: str) -> int:
    """Return how many documents were cut or read by other rules than these."""
    row = connection.execute("SELECT count(*) FROM document WHERE rules <> ?", (rules,)).fetchone()
    count: int = row[0]
    return count


def mark_outdated(connection: sqlite3.Connection, rules: str) -> None:
    """Let these documents be cut and read anew, by whoever has the base open until it is done."""
    connection.execute("UPDATE document SET stale = 1 WHERE rules <> ?", (rules,))


def recut_one(
    store: Store, changing: Changing, titles: Callable[[], Titles], sizes: ChunkSizes
) -> int:
    """Cut and read one marked document anew; return its chunks, 0 when none is marked.

    A passage that stays as it was keeps its vector.
    """
    with store.read() as connection:
        row = connection.execute(
            "SELECT document.no, text, source, title, id, track FROM document "
            "JOIN document_text ON document_text.document = document.no "
            "WHERE stale = 1 ORDER BY document.no LIMIT 1"
        ).fetchone()
    if row is None:
        return 0
    number, packed, *rest = row
    document = Document(zlib.decompress(packed).decode(), *rest)
    prepared = writing.prepare(document, sizes)
    with changing() as (connection, change_):
        # It may have been deleted or replaced since it was read; then it has another number.
        if connection.execute("SELECT 1 FROM document WHERE no = ?", (number,)).fetchone():
            writing.replace(connection, prepared, titles(), time.time(), change_)
    return max(1, len(prepared.pieces))


def rebuild_keywords(connection: sqlite3.Connection) -> None:
    """Index every chunk's words again."""
    connection.execute("INSERT INTO keyword (keyword) VALUES ('delete-all')")
    rows = connection.execute(
        "SELECT chunk.no, title, heading, text FROM chunk "
        "JOIN document ON document.no = chunk.document ORDER BY chunk.no"
    ).fetchall()
    keywords.add(connection, ((row[0], keywords.body(*row[1:])) for row in rows))


def drop_vectors(connection: sqlite3.Connection) -> None:
    """Forget every vector; they are made anew like those of chunks just inserted."""
    connection.execute("DELETE FROM vector")
    connection.execute("UPDATE chunk SET embedded = 0")


def _remember(connection: sqlite3.Connection, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
