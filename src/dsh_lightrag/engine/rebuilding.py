"""What a base is made anew from its texts: when the rules that made it have changed.

A base remembers the version of every rule. Opened by a version with another rule for terms, the
keyword index is made again in one transaction; the documents themselves are never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_lightrag.engine import change, chunking, keywords, local_extraction, terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping


def versions() -> dict[str, str]:
    """Return the versions of the rules as a new base remembers them."""
    return {
        "terms": str(terms.VERSION),
        "chunks": str(chunking.VERSION),
        "names": str(local_extraction.VERSION),
    }


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
