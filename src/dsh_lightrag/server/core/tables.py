"""The list of workspaces on PostgreSQL: a table of ours, advisory locks, and every row of one.

One connection serves all of it, since an advisory lock belongs to its connection. Where the
database was restarted, the connection is made anew and the locks are taken again, or, when
another process was faster, the workspace is refused from then on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from dsh_lightrag.server.backend import BackendError, WorkspaceLockedError
from dsh_lightrag.server.core.models import Vectors
from dsh_lightrag.server.core.registry import Entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

_CONNECT_S = 30
_STATEMENT_S = 60

_TABLE = """
CREATE TABLE IF NOT EXISTS dsh_workspaces (
    name text PRIMARY KEY,
    embedding text NOT NULL,
    dimensions integer NOT NULL,
    deleting jsonb NOT NULL DEFAULT '[]',
    dropped boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
)
"""
# Every table of LightRAG has the workspace as a column; those of vectors are named after the
# model, so that no fixed list would hold them all.
_TABLES_OF_WORKSPACES = r"""
SELECT format('%I.%I', table_schema, table_name)
FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE column_name = 'workspace' AND table_type = 'BASE TABLE'
  AND table_name LIKE 'lightrag\_%' AND table_schema = ANY(current_schemas(false))
ORDER BY 1
"""
_HAS_AGE = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'age')"
_AGE_GRAPH = "SELECT name FROM ag_catalog.ag_graph WHERE name = $1"
_DROP_AGE_GRAPH = "SELECT ag_catalog.drop_graph($1::name, true)"


class Tables:
    """The registry over the table `dsh_workspaces`, in the schema that LightRAG uses."""

    def __init__(self, url: str, variables: Mapping[str, str]) -> None:
        self._url = url
        self._user = variables["POSTGRES_USER"]
        self._database = variables["POSTGRES_DATABASE"]
        self._connection: Any = None
        self._turn = asyncio.Lock()
        self._held: set[str] = set()  # with a lock on the present connection

    async def start(self) -> None:
        """Make the table, and drop what a killed process left half dropped."""
        async with self._session() as connection:
            await connection.execute(_TABLE)
            for row in await connection.fetch("SELECT name FROM dsh_workspaces WHERE dropped"):
                if await _try_lock(connection, row["name"]):
                    await _empty(connection, row["name"])
                    await _unlock(connection, row["name"])

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        async with self._session() as connection:
            rows = await connection.fetch(
                'SELECT name FROM dsh_workspaces WHERE NOT dropped ORDER BY name COLLATE "C"'
            )
        return [row["name"] for row in rows]

    async def find(self, name: str) -> Entry | None:
        """Return the workspace's row, or None when there is none."""
        async with self._session() as connection:
            row = await connection.fetchrow(
                "SELECT embedding, dimensions, deleting FROM dsh_workspaces "
                "WHERE name = $1 AND NOT dropped",
                name,
            )
        if row is None:
            return None
        vectors = Vectors(row["embedding"], row["dimensions"])
        return Entry(vectors, tuple(json.loads(row["deleting"])))

    async def add(self, name: str, entry: Entry) -> bool:
        """Insert the workspace's row; one that is half dropped is emptied first."""
        async with self._session() as connection:
            dropped = await connection.fetchval(
                "SELECT dropped FROM dsh_workspaces WHERE name = $1", name
            )
            if dropped:
                await _empty(connection, name)
            done = await connection.fetchval(
                "INSERT INTO dsh_workspaces (name, embedding, dimensions) VALUES ($1, $2, $3) "
                "ON CONFLICT DO NOTHING RETURNING true",
                name,
                entry.vectors.model,
                entry.vectors.dimensions,
            )
        return bool(done)

    async def note_deletions(self, name: str, ids: Sequence[str]) -> None:
        """Write the ids into the workspace's row."""
        async with self._session() as connection:
            await connection.execute(
                "UPDATE dsh_workspaces SET deleting = $2 WHERE name = $1",
                name,
                json.dumps(list(ids)),
            )

    async def hold(self, name: str) -> None:
        """Take the workspace's advisory lock, unless this connection has it."""
        async with self._session() as connection:
            if name in self._held:
                return
            if not await _try_lock(connection, name):
                raise WorkspaceLockedError(
                    f"Another process has the workspace {name!r} open.",
                    "One process serves a workspace: stop the other one.",
                )
            self._held.add(name)

    async def release(self, name: str) -> None:
        """Give the advisory lock back; with a lost connection it is gone already."""
        async with self._turn:
            if name in self._held and not self._connection.is_closed():
                await _unlock(self._connection, name)
            self._held.discard(name)

    async def remove(self, name: str) -> bool:
        """Mark the row, delete every row of the workspace in every table, then the row itself."""
        async with self._session() as connection:
            found = await connection.fetchval(
                "UPDATE dsh_workspaces SET dropped = true WHERE name = $1 AND NOT dropped "
                "RETURNING true",
                name,
            )
            if found:
                await _empty(connection, name)
        return bool(found)

    async def close(self) -> None:
        """Close the connection, and every lock with it."""
        async with self._turn:
            if self._connection is not None:
                await self._connection.close(timeout=_CONNECT_S)
            self._connection = None
            self._held.clear()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        """Give the connection, made anew where it was lost, to one user at a time."""
        async with self._turn:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._held.clear()
                    self._connection = await self._connect()
                yield self._connection
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                # Their texts may hold an address or a row, and help nobody without the log.
                raise BackendError(
                    f"The database failed ({type(error).__name__}).",
                    "Look at its log, and at the database URL.",
                ) from error

    async def _connect(self) -> Any:
        return await asyncpg.connect(
            self._url,
            user=self._user,
            database=self._database,
            timeout=_CONNECT_S,
            command_timeout=_STATEMENT_S,
        )


def _key(name: str) -> int:
    """Return the advisory lock's number: 64 bits of a digest, the same in every process."""
    digest = hashlib.blake2b(f"dsh-lightrag workspace {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


async def _try_lock(connection: Any, name: str) -> bool:
    return bool(await connection.fetchval("SELECT pg_try_advisory_lock($1)", _key(name)))


async def _unlock(connection: Any, name: str) -> None:
    await connection.execute("SELECT pg_advisory_unlock($1)", _key(name))


async def _empty(connection: Any, name: str) -> None:
    """Delete whatever belongs to a workspace, in one transaction."""
    async with connection.transaction():
        for row in await connection.fetch(_TABLES_OF_WORKSPACES):
            # The table's name was quoted by PostgreSQL itself.
            await connection.execute(f"DELETE FROM {row[0]} WHERE workspace = $1", name)  # noqa: S608 - as above
        if await connection.fetchval(_HAS_AGE):
            graph = f"{name}_chunk_entity_relation"
            if await connection.fetchval(_AGE_GRAPH, graph):
                await connection.execute(_DROP_AGE_GRAPH, graph)
        await connection.execute("DELETE FROM dsh_workspaces WHERE name = $1", name)
