"""What the tests of the gateway's API share: real servers on loopback, teams, keys and tokens."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from dataclasses import dataclass
from uuid import uuid4

import anyio
import httpx
import httpx2
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from sqlalchemy import select

from dsh_lightrag.gateway.api.app import app_of
from dsh_lightrag.gateway.desk import Desk
from dsh_lightrag.gateway.fetch import fetch
from dsh_lightrag.gateway.tables import KnowledgeDocument
from dsh_lightrag.gateway.worker import Worker
from dsh_lightrag.server.app import build_app
from dsh_lightrag.server.embedded.keeper import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.settings import ServerSettings
from dsh_lightrag.settings import LightRagSettings

BOUND_S = 60


@contextlib.asynccontextmanager
async def listening(app):
    """Serve an application on a free port of loopback; yields its origin."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        with anyio.fail_after(BOUND_S):
            while not server.started and not task.done():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            with anyio.fail_after(BOUND_S):
                await task


@contextlib.asynccontextmanager
async def knowledge_server(folder, most_open=64, keeper=None):
    """Our own server, over the embedded engine by default; yields settings to reach it with."""
    key = secrets.token_urlsafe(24)
    keeper = keeper or EmbeddedKeeper(EmbeddedSettings(folder, embedder="none"))
    app = build_app(keeper, ServerSettings(folder, port=0, api_key=key, most_open=most_open))
    async with listening(app) as origin:
        yield LightRagSettings(endpoint=origin, api_key=key)


@dataclass
class Gateway:
    """A gateway that listens, and the parts behind it."""

    desk: Desk
    url: str
    http: httpx.AsyncClient

    async def team(self, **key):
        """Make a team with a key; returns the team's id and its headers."""
        team_id = await self.desk.identities.create_team(f"team {uuid4().hex}")
        issued = await self.desk.identities.create_key(team_id, "key", **key)
        return team_id, bearer(issued.text)

    async def base(self, headers, name="catalogue", **fields):
        """Make a base over the API; returns its id."""
        made = await self.http.post(
            "/knowledge-bases", json={"name": name, **fields}, headers=headers
        )
        assert made.status_code == 201, made.text
        return made.json()["id"]

    async def put(self, headers, base_id, external_id, text, **fields):
        """Put a text over the API."""
        return await self.http.put(
            f"/knowledge-bases/{base_id}/documents/text",
            json={"externalId": external_id, "text": text, **fields},
            headers=headers,
        )

    async def token(self, headers, base_ids, **fields):
        """Issue a session token over the API; returns its id and its headers."""
        body = {"sessionId": "s-1", "baseIds": base_ids, **fields}
        issued = await self.http.post("/session-tokens", json=body, headers=headers)
        assert issued.status_code == 201, issued.text
        return issued.json()["id"], bearer(issued.json()["token"])

    async def call(self, headers, tool="knowledge_search", era="auto", **arguments):
        """Call a tool as the SDK's own client does."""
        async with self.mcp(headers, era) as client:
            return await client.call_tool(tool, arguments)

    @contextlib.asynccontextmanager
    async def mcp(self, headers, era="auto"):
        """A real MCP client with these headers."""
        async with httpx2.AsyncClient(headers=headers, timeout=BOUND_S) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            with anyio.fail_after(BOUND_S):
                async with Client(transport, mode=era) as client:
                    yield client

    async def post_mcp(self, headers, method="tools/list", params=None):
        """Send one message of the protocol as plain HTTP."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        accept = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-11-25",
        }
        return await self.http.post("/mcp", json=message, headers={**accept, **headers})


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@contextlib.asynccontextmanager
async def gateway(database_url, settings, entry=None):
    """A gateway that listens on loopback, over a database and a knowledge server."""
    async with (
        Desk.open(database_url, settings) as desk,
        listening(app_of(desk, entry)) as url,
        httpx.AsyncClient(base_url=url, timeout=BOUND_S) as http,
    ):
        yield Gateway(desk, url, http)


@contextlib.asynccontextmanager
async def working(desk):
    """Run a worker; it has ended when this has."""
    stop = asyncio.Event()
    running = asyncio.create_task(
        Worker(desk.database, desk.server, fetch, audit_days=365).run(stop)
    )
    try:
        yield
    finally:
        stop.set()
        with anyio.fail_after(BOUND_S):
            await running


async def index(gateway):
    """Let a worker index all that is pending."""
    async with working(gateway.desk):
        with anyio.fail_after(BOUND_S):
            while await _unfinished(gateway.desk.database):  # noqa: ASYNC110 - a worker tells nobody
                await asyncio.sleep(0.02)


async def _unfinished(database):
    unfinished = KnowledgeDocument.status.in_(("pending", "indexing"))
    async with database.sessions() as session:
        return await session.scalar(select(KnowledgeDocument.id).where(unfinished).limit(1))
