"""What a transaction changed, for the indexes in memory to learn once it is durable.

Each is also noted in the base, with the chunks it touched, so that an index saved beside the base
can be told from one of another state, and brought up to date by reading those chunks again.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import sqlite3


@dataclass(slots=True)
class Change:
    """What a transaction changed, for the indexes in memory; None means that it is gone."""

    edges: dict[int, bytes | None] = field(default_factory=dict)
    common: dict[int, bool] = field(default_factory=dict)
    vectors: dict[int, bytes | None] = field(default_factory=dict)
    terms: dict[int, list[str] | None] = field(default_factory=dict)
    titles: Counter[str] = field(default_factory=Counter)

    def add(self, later: Change) -> None:
        """Take in a change that the same transaction made after this one."""
        self.edges |= later.edges
        self.common |= later.common
        self.vectors |= later.vectors
        self.terms |= later.terms
        self.titles.update(later.titles)


class Stamp(NamedTuple):
    """A change's number, and a random one, for a restored copy counts the same changes again."""

    change: int = 0
    token: int = 0


def note(connection: sqlite3.Connection, change: Change) -> Stamp | None:
    """Note in the same transaction which chunks were touched; None if nothing was."""
    chunks = change.edges.keys() | change.vectors.keys() | change.terms.keys()
    if not chunks and not change.common:
        return None
    token = secrets.randbits(62)
    cursor = connection.execute(
        "INSERT INTO change (token, chunks) VALUES (?, ?)",
        (token, np.array(sorted(chunks), dtype="<i8").tobytes()),
    )
    return Stamp(cursor.lastrowid or 0, token)


def newest(connection: sqlite3.Connection) -> Stamp:
    """Return the last change that was noted."""
    row = connection.execute("SELECT no, token FROM change ORDER BY no DESC LIMIT 1").fetchone()
    return Stamp(*row) if row else Stamp()


def touched_since(connection: sqlite3.Connection, stamp: Stamp) -> set[int] | None:
    """Return the chunks touched after a change; None if this base never was at that change."""
    row = connection.execute("SELECT token FROM change WHERE no = ?", (stamp.change,)).fetchone()
    if row is None or row[0] != stamp.token:
        return None
    touched: set[int] = set()
    for (packed,) in connection.execute("SELECT chunks FROM change WHERE no > ?", (stamp.change,)):
        touched.update(np.frombuffer(packed, dtype="<i8").tolist())
    return touched


def forget(connection: sqlite3.Connection, before: Stamp) -> None:
    """Drop the notes that no saved index needs: those before the change that it is up to."""
    connection.execute("DELETE FROM change WHERE no < ?", (before.change,))


def forget_all(connection: sqlite3.Connection) -> None:
    """Make every saved index one of another state."""
    connection.execute("DELETE FROM change")
