"""A base looked at from outside, also while another process has it open: copied, counted, checked.

Readers of a write-ahead log see one state from their first statement to their last and disturb
nobody, so none of this takes the base's lock.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from dsh_lightrag.engine import schema, verifying
from dsh_lightrag.engine.refusals import translated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def copy_base(path: Path, target: Path) -> None:
    """Write a base as it is now to a new file, whole or not at all.

    Raises:
        BaseCorruptError, BaseTooNewError: the file is damaged, foreign or of a newer version.
        BaseUnusableError: it cannot be read, or the target is there or cannot be written.
        DiskFullError: there is no room for it.
    """
    unfinished = target.with_name(f"{target.name}.new")
    mend = "Check the free space of the disk and the rights of the folder."
    with _reader(path) as connection, translated(target, "cannot be written", mend):
        try:
            schema.remove(unfinished)
            with closing(sqlite3.connect(unfinished)) as copy:
                connection.backup(copy)
            schema.place(unfinished, target)
        finally:
            schema.remove(unfinished)


def problems_of(path: Path) -> list[str]:
    """Return what is wrong with a base, one line each; reads all of it.

    Raises:
        BaseCorruptError, BaseTooNewError, BaseUnusableError: it cannot be looked at.
    """
    with _reader(path) as connection:
        return verifying.problems(connection)


def documents_in(path: Path) -> int:
    """Return how many documents a base has.

    Raises:
        BaseCorruptError, BaseTooNewError, BaseUnusableError: it cannot be looked at.
    """
    with _reader(path) as connection:
        return int(connection.execute("SELECT count(*) FROM document").fetchone()[0])


@contextmanager
def _reader(path: Path) -> Iterator[sqlite3.Connection]:
    schema.refuse_untrusted(path)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        translated(path, "cannot be read"),
        closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        yield connection
