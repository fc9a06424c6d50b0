"""A knowledge server on a real socket, the MCP face in memory, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp_support import ALL_ON, BOUND_S, KEY, ROOT, Door, Knowledge, Process

from dsh_lightrag import LightRagSettings, toolbox
from dsh_lightrag.faces.mcp.offer import Offer
from dsh_lightrag.faces.mcp.server import build

COMMAND = (sys.executable, "-m", "dsh_lightrag", "mcp")


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def knowledge():
    """A knowledge server of this test alone."""
    server = Knowledge()
    listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.origin = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    yield server
    listener.close()


@pytest.fixture
def settings(knowledge):
    """Settings against it, with every tool on."""
    return LightRagSettings(endpoint=knowledge.origin, apiKey=KEY, **ALL_ON)


@pytest.fixture
def serving(settings):
    """Make the face's server under these settings, changed as asked."""

    def make(*, admitted=None, progress_every_s=5.0, catalog=None, **row):
        chosen = LightRagSettings(
            **{**settings.model_dump(), "api_key": settings.api_key.get_secret_value(), **row}
        )
        dispatcher = toolbox(chosen) if catalog is None else catalog(chosen)
        return build(Offer(dispatcher, admitted), progress_every_s=progress_every_s)

    return make


@pytest.fixture(params=["legacy", "auto"])
async def client(serving, request):
    """A client in memory, of the handshake revisions and of 2026-07-28, with every tool on."""
    with anyio.fail_after(BOUND_S):
        async with Client(serving(), mode=request.param) as connected:
            yield connected


# --- stdio ------------------------------------------------------------------------------------


@pytest.fixture
def environment(knowledge):
    """What a child is given: the code under test, the knowledge server, and its key."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "LIGHTRAG_ENDPOINT": knowledge.origin,
        "LIGHTRAG_API_KEY": KEY,
    }


@pytest.fixture
async def start(environment):
    """Start `dsh-lightrag mcp` with arguments and variables; ends what it started."""
    children = []

    async def run(*arguments, command=COMMAND, stderr=asyncio.subprocess.PIPE, **variables):
        child = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={**environment, **variables},
            limit=2**22,
        )
        children.append(child)
        return Process(child)

    yield run
    for child in children:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        child.stdin.close()  # a child of the child may still read it
        with anyio.fail_after(BOUND_S):
            await child.communicate()


# --- HTTP -------------------------------------------------------------------------------------


@pytest.fixture
async def listen():
    """Serve an ASGI application of the face on a real socket, in this event loop."""
    import uvicorn  # noqa: PLC0415 - the other transports' tests do without

    async with contextlib.AsyncExitStack() as stack:

        async def serve(app):
            config = uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1)
            server = uvicorn.Server(config)
            # Listening from here on: a client that comes early waits in the backlog.
            listener = socket.create_server(("127.0.0.1", 0))
            task = asyncio.create_task(server.serve(sockets=[listener]))

            async def stop():
                server.should_exit = True
                with anyio.fail_after(BOUND_S):
                    await task

            stack.push_async_callback(stop)
            port = listener.getsockname()[1]
            http = await stack.enter_async_context(httpx2.AsyncClient(timeout=BOUND_S))
            return Door(f"http://127.0.0.1:{port}/mcp", http)

        yield serve
