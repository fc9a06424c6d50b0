"""What SQLite and the system refuse, as the room's errors: one translation for every door."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsh_lightrag.engine.faults import BaseCorruptError, BaseUnusableError, DiskFullError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSALS = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_TOOBIG,
}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def translated(
    path: Path,
    cannot: str = "cannot be used",
    mend: str = "Check the disk and the rights of the folder.",
) -> Iterator[None]:
    """Turn what SQLite and the system refuse into our errors; a mistake in our SQL stays one.

    Args:
        path: the file that is told of.
        cannot: what cannot be done to it.
        mend: what helps where the system refuses.

    Raises:
        BaseCorruptError: the file is damaged or no database.
        DiskFullError: there is no room left.
        BaseUnusableError: whatever else is refused: rights, a lock of another program, a device.
    """
    try:
        yield
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if primary in _DAMAGE:
            raise BaseCorruptError(f"{path.name} is damaged: {error}.") from error
        if primary == sqlite3.SQLITE_INTERRUPT:  # broken off, for the base is being closed
            raise BaseUnusableError(f"{path.name} is closed.", "Open the base again.") from error
        if primary == sqlite3.SQLITE_FULL:
            raise _full() from error
        if primary in _REFUSALS:
            raise BaseUnusableError(f"{path.name} {cannot}: {error}.", mend) from error
        raise
    except OSError as refused:
        if refused.errno in _NO_ROOM:
            raise _full() from refused
        raise BaseUnusableError(f"{path} {cannot}: {refused.strerror}.", mend) from refused


def _full() -> DiskFullError:
    return DiskFullError("The disk is full.", "Free some space, then try again.")
