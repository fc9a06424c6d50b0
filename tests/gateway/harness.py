"""A real knowledge server behind an ASGI door, a worker beside it, and short ways to use them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from dsh_lightrag import LightRagSettings, wire
from dsh_lightrag.gateway import bases, documents
from dsh_lightrag.gateway.documents import TextPut
from dsh_lightrag.gateway.knowledge import KnowledgeServer
from dsh_lightrag.gateway.worker import Worker
from dsh_lightrag.server.app import build_app
from dsh_lightrag.server.embedded.keeper import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from dsh_lightrag.gateway.database import Database

URL = "http://127.0.0.1:9621"
PATIENCE_S = 60


@contextlib.asynccontextmanager
async def served(data: Path, **settings: Any) -> AsyncIterator[httpx.ASGITransport]:
    """Serve a folder of bases in this process, without an embedding model."""
    keeper = EmbeddedKeeper(EmbeddedSettings(data, embedder="none", **settings))
    app = build_app(keeper, ServerSettings(data))
    started, ended = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        if started.is_set():
            await ended.wait()
            return {"type": "lifespan.shutdown"}
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        assert message["type"].endswith(".complete"), message
        started.set()

    living = asyncio.create_task(app({"type": "lifespan", "asgi": {}}, receive, send))
    await started.wait()
    try:
        yield httpx.ASGITransport(app, client=("127.0.0.1", 1))
    finally:
        ended.set()
        await living


def knowledge(inner: httpx.AsyncBaseTransport) -> KnowledgeServer:
    """Return the client's side of a served folder."""
    return KnowledgeServer(LightRagSettings(endpoint=URL), inner)


async def nothing_fetched(url: str) -> Any:
    """Fetch for tests in which no URL is put."""
    raise AssertionError(url)


@contextlib.asynccontextmanager
async def working(
    database: Database, server: KnowledgeServer, fetch: Any = nothing_fetched
) -> AsyncIterator[None]:
    """Run a worker; it has ended when this has."""
    stop = asyncio.Event()
    running = asyncio.create_task(Worker(database, server, fetch, audit_days=365).run(stop))
    try:
        yield
    finally:
        stop.set()
        with anyio.fail_after(PATIENCE_S):
            await running


@dataclass
class Shelf:
    """A base, and what is done with it, each in a transaction of its own."""

    database: Database
    team_id: Any
    base: Any

    @classmethod
    async def make(cls, database: Database, team_id: Any, **fields: Any) -> Shelf:
        async with database.sessions.begin() as session:
            base = await bases.create_base(session, team_id, "catalogue", **fields)
        return cls(database, team_id, base)

    async def put(self, external_id: str, content: Any, **fields: Any) -> documents.Put:
        content = TextPut(content) if isinstance(content, str) else content
        settings = {"source": "catalog", "name": f"{external_id}.txt"} | fields
        async with self.database.sessions.begin() as session:
            return await documents.put_document(
                session, self.base.id, external_id, content=content, **settings
            )

    async def get(self, external_id: str) -> Any:
        async with self.database.sessions() as session:
            return await documents.get_document(session, self.base.id, external_id)

    async def delete(self, external_id: str) -> None:
        async with self.database.sessions.begin() as session:
            await documents.delete_document(session, self.base.id, external_id)

    async def until(self, external_id: str, *statuses: str) -> Any:
        """Wait until the document is in one of the statuses."""
        with anyio.fail_after(PATIENCE_S):
            while (row := await self.get(external_id)).status not in statuses:  # noqa: ASYNC110 - a row tells nobody
                await anyio.sleep(0.05)
        return row

    async def current(self) -> dict[str, list[str]]:
        """Return which external ids each file on the server answers for."""
        async with self.database.sessions() as session:
            named = await documents.current_names(session, self.base.id)
        return {name: [one.external_id for one in rows] for name, rows in named.items()}


async def filed(server: KnowledgeServer, workspace: str) -> dict[str, str]:
    """Return name and status of all that the server holds."""
    return {row.file_path: row.status async for row in server.documents(workspace)}


async def passages(server: KnowledgeServer, workspace: str, query: str) -> list[str]:
    """Return the passages that the server finds."""
    request = wire.QueryDataRequest(query=query, mode="naive", top_k=10)
    return [one.content for one in (await server.client(workspace).query_data(request)).data.chunks]


async def eventually(check: Any) -> Any:
    """Wait until an async check returns something true, and return that."""
    with anyio.fail_after(PATIENCE_S):
        while not (found := await check()):  # noqa: ASYNC110 - as above
            await anyio.sleep(0.05)
    return found
