"""Our server as a process over real sockets, and as an application in this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx

from dsh_lightrag.server.app import build_app

SCRIPT = Path(__file__).with_name("serving.py")
START_S = 30.0
BASE_URL = "http://127.0.0.1:9621"


class Process:
    """Our server as a process on a data folder; a context manager that ends it."""

    def __init__(self, data, *arguments):
        self.data = data
        source = str(Path(__file__).parents[2] / "src")
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            [sys.executable, str(SCRIPT), str(data), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": source},
        )
        self.url = self.process.stdout.readline().decode().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """End it as an operator would; return what it wrote to its log."""
        self.process.terminate()
        _, log = self.process.communicate(timeout=START_S)
        return log.decode()


@contextlib.asynccontextmanager
async def in_process(keeper, settings):
    """Yield a client of the application, its lifespan run as a server runs it."""
    app = build_app(keeper, settings)
    events, told = asyncio.Queue(), asyncio.Queue()

    async def live():
        await app({"type": "lifespan"}, events.get, told.put)

    async with anyio.create_task_group() as group:
        group.start_soon(live)
        await events.put({"type": "lifespan.startup"})
        assert (await told.get())["type"] == "lifespan.startup.complete"
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            try:
                yield client
            finally:
                await events.put({"type": "lifespan.shutdown"})
                assert (await told.get())["type"] == "lifespan.shutdown.complete"


async def settled(client, of=0, **headers):
    """Wait until a workspace of so many documents has nothing to do; return its documents."""
    deadline = time.monotonic() + START_S
    while True:
        status = (await client.get("/documents/pipeline_status", headers=headers)).json()
        page = (await client.post("/documents/paginated", json={}, headers=headers)).json()
        if _is_settled(status, page, of):
            return page["documents"]
        assert time.monotonic() < deadline, status
        await anyio.sleep(0.02)


def settled_over(client, of=0):
    """Wait as `settled` does, over a socket."""
    deadline = time.monotonic() + START_S
    while True:
        status = client.get("/documents/pipeline_status").json()
        page = client.post("/documents/paginated", json={}).json()
        if _is_settled(status, page, of):
            return page["documents"]
        assert time.monotonic() < deadline, status
        time.sleep(0.02)


def _is_settled(status, page, of):
    counts = page["status_counts"]
    idle = not (status["busy"] or status["scanning"] or status["pending_enqueues"])
    return idle and of <= counts["all"] == counts["processed"] + counts["failed"]
