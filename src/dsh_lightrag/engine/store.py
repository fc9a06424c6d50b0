"""The doors to a base's file: one for writing, as many as needed for reading.

A write is one transaction, durable when it returns. A read sees one state of the base from its
first statement to its last, and never waits for a writer.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dsh_lightrag.engine import migrating, schema
from dsh_lightrag.engine.faults import BaseUnusableError
from dsh_lightrag.engine.refusals import translated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BUSY_SECONDS = 10.0  # how long a write waits for another program that has locked the file
_STEPS = 100_000
_WRITER_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -32000",
    "PRAGMA wal_autocheckpoint = 4000",
)
_READER_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA cache_size = -16000",
    "PRAGMA mmap_size = 1073741824",  # pages are read where they lie instead of being copied
)


class Store:
    """An open base: its connections and its transactions."""

    def __init__(self, path: Path, meta: Mapping[str, str]) -> None:
        """Open the base at `path`, or make one described by `meta` if there is no file."""
        self.path = path
        self._lock = schema.BaseLock(path)
        try:
            if not path.exists():
                schema.create(path, meta)
            schema.refuse_untrusted(path)
            migrating.migrate(path)
            with translated(path):
                self._writer = self._connect(_WRITER_PRAGMAS)
        except BaseException:  # whatever keeps it from opening, the lock is let go
            self._lock.close()
            raise
        # Locked while writers are broken off. SQLite asks every so many steps, about a millisecond,
        # and ends what it is doing. A lock, for its method runs no Python: there a signal would be
        # raised, and lost.
        self._breaking = threading.Lock()
        self._writer.set_progress_handler(self._breaking.locked, _STEPS)
        self._closer: int | None = None
        self._opened = path.stat()
        self._writing = threading.Lock()
        self._idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._closed = False

    def break_off(self) -> None:
        """Let whoever writes, in whatever thread, fail and be undone; nobody begins any more."""
        self._breaking.acquire(blocking=False)

    def go_on(self) -> None:
        """Raise where writers are broken off; asked by whoever takes long without SQLite."""
        if self._breaking.locked() and threading.get_ident() != self._closer:
            raise self._gone()

    def last_word(self) -> None:
        """Wait until whoever wrote has ended; then this thread alone writes what closing takes."""
        with self._writing:
            if not self._closed:
                self._closer = threading.get_ident()
                self._writer.set_progress_handler(None, 0)

    def close(self) -> None:
        """Close every connection, folding the log into the file, and give the base free."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            while True:
                try:
                    self._idle.get_nowait().close()
                except queue.Empty:
                    break
            self._writer.close()
            self._lock.close()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction: all of it is kept and durable, or nothing of it is."""
        with self._writing, translated(self.path):
            self._refuse_closed()
            self.go_on()
            self._refuse_moved()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:  # an interrupt too must leave no half of a document
                # A full disk may have rolled back already; then there is nothing to undo.
                with suppress(sqlite3.OperationalError):
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Look at one state of the base; nothing that commits meanwhile changes it."""
        with translated(self.path):
            self._refuse_closed()
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self._connect(_READER_PRAGMAS)
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                with suppress(sqlite3.OperationalError):
                    connection.execute("ROLLBACK")
                if self._closed:
                    connection.close()
                else:
                    self._idle.put(connection)

    def checkpoint(self) -> None:
        """Fold the log into the file, as far as no reader still needs it."""
        with self._writing, translated(self.path):
            self._refuse_closed()
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _connect(self, pragmas: tuple[str, ...]) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,  # transactions begin and end where the code says so
            check_same_thread=False,  # a connection has one user at a time, not one thread
            timeout=BUSY_SECONDS,
        )
        for pragma in pragmas:
            connection.execute(pragma)
        return connection

    def _refuse_closed(self) -> None:
        if self._closed:
            raise self._gone()

    def _gone(self) -> BaseUnusableError:
        return BaseUnusableError(f"{self.path.name} is closed.", "Open the base again.")

    def _refuse_moved(self) -> None:
        """Refuse to write to a file that has lost its name: nobody would ever find it again."""
        try:
            same = os.path.samestat(self._opened, self.path.stat())
        except OSError:
            same = False
        if not same:
            raise BaseUnusableError(
                f"{self.path.name} was moved, removed or replaced while it was open.",
                "Stop what has it open, then put the file back.",
            )
