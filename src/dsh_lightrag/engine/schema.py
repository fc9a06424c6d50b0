"""The file of a knowledge base: made whole or not at all, and opened only if it can be trusted.

A file that is damaged, foreign or written by a newer version is refused before anything could
write to it. One engine at a time has a base open: a lock beside the file says who.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from contextlib import closing, suppress
from importlib import resources
from typing import TYPE_CHECKING

from dsh_lightrag.engine.faults import (
    BaseCorruptError,
    BaseLockedError,
    BaseTooNewError,
    BaseUnusableError,
)
from dsh_lightrag.engine.refusals import translated

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 2
APPLICATION_ID = 0x44534C52  # "DSLR" in the file's header
_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
# Below this size every page is checked on opening; above, what is damaged shows when it is read.
_CHECKED_BYTES = 32 * 2**20


class BaseLock:
    """The right to open a base, held until closed; the system drops it when the process dies."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as refused:
            raise BaseUnusableError(
                f"{path.parent} cannot be written: {refused.strerror}.",
                "Choose a folder that this user may write.",
            ) from refused
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            owner = os.pread(self._file, 20, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise BaseLockedError(
                f"{path.name} is open in process {owner or 'unknown'}.",
                "Use the base through that process, or stop it first.",
            ) from taken
        with suppress(OSError):  # only told to people; a full disk must not keep a base from going
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Give the base free; the empty lock file stays, for removing it would be a race."""
        os.close(self._file)


def lock_path(path: Path) -> Path:
    """Return the lock file that belongs to a base."""
    return path.with_name(f"{path.name}.lock")


def create(path: Path, meta: Mapping[str, str]) -> None:
    """Write an empty base under another name and move it into place whole."""
    unfinished = path.with_name(f"{path.name}.new")
    with translated(path, "cannot be written", "Choose a folder that this user may write."):
        try:
            remove(unfinished)
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(script())
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            place(unfinished, path)
        except BaseException:  # whatever broke it off, nothing half-made is left
            with suppress(OSError):
                remove(unfinished)
            raise


def script() -> str:
    """Return the statements that make an empty base."""
    sql = resources.files("dsh_lightrag.engine").joinpath("schema.sql")
    return sql.read_text(encoding="utf-8")


def format_of(path: Path) -> int:
    """Return the format of a base that was found intact."""
    with closing(_reader(path)) as reader:
        version: int = reader.execute("PRAGMA user_version").fetchone()[0]
    return version


def log_of(path: Path) -> Path:
    """Return the write-ahead log that belongs to a base."""
    return path.with_name(f"{path.name}-wal")


def place(unfinished: Path, path: Path) -> None:
    """Give a finished file its name, durably, and never another file's."""
    mend = "Choose a name that is free, in a folder that this user may write."
    with translated(path, "cannot be written", mend):
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        sync(unfinished)
        unfinished.rename(path)
        sync(path.parent)


def refuse_untrusted(path: Path) -> None:
    """Raise unless the file is an intact base of this format; never writes to it."""
    with translated(path, "cannot be read", "Give this user access to the file."):
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise BaseCorruptError(f"{path.name} is no knowledge base, or damaged.")
    application, version = _number(header, 68), _number(header, 60)
    if application != APPLICATION_ID:
        raise BaseCorruptError(f"{path.name} is the database of another program.")
    if version > FORMAT:
        raise BaseTooNewError(
            f"{path.name} has format {version}; this version reads up to {FORMAT}.",
            "Upgrade: pip install --upgrade dsh-lightrag.",
        )
    if _is_cut(header, size) and not _has_log(path):
        raise BaseCorruptError(f"{path.name} has been cut short.")
    _check_pages(path, whole=size <= _CHECKED_BYTES)


def remembered(path: Path) -> dict[str, str]:
    """Return what a base was made with; nothing for a file that tells nothing. Never writes."""
    if not path.exists():
        return {}
    with suppress(sqlite3.Error), closing(_reader(path)) as reader:
        return dict(reader.execute("SELECT key, value FROM meta").fetchall())
    return {}


def _reader(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _check_pages(path: Path, *, whole: bool) -> None:
    """Let SQLite read the file, write-protected: its schema, and every page of a small one."""
    with translated(path), closing(_reader(path)) as reader:
        tables = {row[0] for row in reader.execute("SELECT name FROM sqlite_schema")}
        verdict = reader.execute("PRAGMA quick_check(1)").fetchone()[0] if whole else "ok"
    if verdict != "ok" or not {"meta", "document", "chunk", "keyword", "mention"} <= tables:
        raise BaseCorruptError(f"{path.name} is damaged: {verdict}.")


def _is_cut(header: bytes, size: int) -> bool:
    """Tell whether pages that the header counts are missing from the file."""
    page = _number(header, 16, 2)
    return size < _number(header, 28) * (65536 if page == 1 else page)


def _has_log(path: Path) -> bool:
    """Tell whether a write-ahead log can bring back what the file itself lacks."""
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


def _number(header: bytes, offset: int, length: int = 4) -> int:
    return int.from_bytes(header[offset : offset + length], "big")


def remove(unfinished: Path) -> None:
    """Remove what a creation that was killed left behind."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file or a folder's list of names durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
