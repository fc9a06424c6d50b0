"""From an older format to today's: made on a copy, which takes the base's place once it is whole.

The base as it was stays beside it under another name. A migration that is killed or fails leaves
the base as it was, and is done again from the start.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from dsh_lightrag.engine import schema
from dsh_lightrag.engine.refusals import translated
from dsh_lightrag.engine.writing import text_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def migrate(path: Path) -> Path | None:
    """Bring a base to today's format; return where the old one is kept, None if nothing was to do.

    The caller holds the base's lock and has found it intact.
    """
    version = schema.format_of(path)
    if version >= schema.FORMAT:
        return None
    copy = path.with_name(f"{path.name}.new")
    kept = path.with_name(f"{path.name}.format-{version}")
    mend = "Give the folder room for a copy of the base, and the right to write it."
    with translated(path, "cannot be brought to a newer format", mend):
        try:
            schema.remove(copy)
            _copy_whole(path, copy)
            _rewrite(copy, version)
            kept.unlink(missing_ok=True)
            os.link(path, kept)
            copy.replace(path)
            schema.sync(path.parent)
        except BaseException:  # whatever broke it off, nothing half-made is left
            with suppress(OSError):
                schema.remove(copy)
            raise
    return kept


def _copy_whole(path: Path, copy: Path) -> None:
    """Copy a base and fold its log into it: no log may outlive the file that it belongs to."""
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy)) as new:
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        old.backup(new)
    if schema.log_of(path).exists():
        raise OSError(errno.EBUSY, "another program has it open")


def _rewrite(copy: Path, version: int) -> None:
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        _add_what_is_new(connection)
        for step in range(version, schema.FORMAT):
            _STEPS[step](connection)
        connection.execute(f"PRAGMA user_version = {schema.FORMAT}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    schema.sync(copy)


def _add_what_is_new(connection: sqlite3.Connection) -> None:
    """Add the columns, tables, indexes and triggers that a new base has and this one lacks."""
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(schema.script())
        objects = model.execute(
            "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
        ).fetchall()
        have = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
        for name, _ in objects:
            if name in have:
                _add_columns(connection, model, name)
        for name, sql in objects:
            if name not in have:
                connection.execute(sql)


def _add_columns(connection: sqlite3.Connection, model: sqlite3.Connection, table: str) -> None:
    have = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    for _, name, kind, _, default, _ in model.execute(f"PRAGMA table_info({table})").fetchall():
        if name not in have:
            connection.execute(
                f'ALTER TABLE {table} ADD COLUMN "{name}" {kind} NOT NULL DEFAULT {default}'
            )


def _count_and_digest(connection: sqlite3.Connection) -> None:
    """Format 1 did not know equal texts, and counted a document's chunks on every listing."""
    connection.execute(
        "UPDATE document SET (chunks, embedded, extracted, unembeddable, unextractable) = "
        "(SELECT count(*), coalesce(sum(embedded = 1), 0), coalesce(sum(extracted = 1), 0), "
        "coalesce(sum(embedded = 2), 0), coalesce(sum(extracted = 2), 0) "
        "FROM chunk WHERE chunk.document = document.no)"
    )
    for number, packed in connection.execute("SELECT document, text FROM document_text").fetchall():
        digest = text_digest(zlib.decompress(packed).decode())
        connection.execute("UPDATE document SET digest = ? WHERE no = ?", (digest, number))


_STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _count_and_digest}
