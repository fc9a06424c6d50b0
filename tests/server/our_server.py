"""Our server as a process over real sockets, and as an application in this one."""

from __future__ import annotations

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
    events, told = anyio.create_memory_object_stream(2), anyio.create_memory_object_stream(2)

    async def live():
        await app({"type": "lifespan"}, events[1].receive, told[0].send)

    async with anyio.create_task_group() as group:
        group.start_soon(live)
        await events[0].send({"type": "lifespan.startup"})
        assert (await told[1].receive())["type"] == "lifespan.startup.complete"
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            try:
                yield client
            finally:
                await events[0].send({"type": "lifespan.shutdown"})
                assert (await told[1].receive())["type"] == "lifespan.shutdown.complete"
    for stream in (*events, *told):
        stream.close()


async def settled(client, **headers):
    """Wait until a workspace has nothing to do; return its documents."""
    deadline = time.monotonic() + START_S
    while True:
        status = (await client.get("/documents/pipeline_status", headers=headers)).json()
        page = (await client.post("/documents/paginated", json={}, headers=headers)).json()
        counts = page["status_counts"]
        idle = not (status["busy"] or status["scanning"] or status["pending_enqueues"])
        if idle and counts["all"] == counts["processed"] + counts["failed"]:
            return page["documents"]
        assert time.monotonic() < deadline, status
        await anyio.sleep(0.02)
