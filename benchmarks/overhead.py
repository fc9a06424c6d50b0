"""What a tool call costs over a bare httpx request, and what importing the package costs.

Both sides ask the same loopback server for the same answer with the same headers, in short blocks
by turns in one run, so that a drift of the machine meets both. The figure to read is the ratio.

    python benchmarks/overhead.py [--calls 400] [--batches 20] [--imports 15]

The server is a separate process that writes canned answers of LightRAG's shape; no model and no
retrieval takes part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stderr
from pathlib import Path
from typing import cast

import httpx

from dsh_lightrag import Dispatcher, LightRagSettings, toolbox

Call = Callable[[], Awaitable[object]]
QUESTION = "Who discovered polonium?"
SIZES = {"1 KB": 1_000, "200 KB": 199_000}
CONCURRENT = 100
BLOCK = 10
UNCOUNTED = 2
OURS = "from dsh_lightrag import LightRagSettings, TOOLS"
BARE = "import httpx, structlog, pydantic_settings\nfrom pydantic_settings import BaseSettings"

SERVER = """
import asyncio, json, sys

def answer(size):
    text = ("Marie Curie discovered polonium in Paris. " * (size // 42 + 1))[:size]
    references = [{"reference_id": "1", "file_path": "curie.txt", "content": None}]
    body = json.dumps({"response": text, "references": references, "llm_generated": True})
    head = "HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n"
    return (head % len(body)).encode() + body.encode()

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\\r\\n")[0])
            await reader.readexactly(length)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

ANSWER = answer(int(sys.argv[1]))
asyncio.run(main())
"""


@asynccontextmanager
async def served(size: int) -> AsyncIterator[str]:
    """Yield the origin of a server process that answers with `size` bytes of text."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(size), stdout=asyncio.subprocess.PIPE
    )
    port = await cast("asyncio.StreamReader", process.stdout).readline()
    try:
        yield f"http://127.0.0.1:{int(port)}"
    finally:
        process.terminate()
        await process.wait()


async def timed(call: Call) -> float:
    """Return the seconds that one call takes."""
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started


async def interleaved(ours: Call, bare: Call, rounds: int) -> tuple[list[float], list[float]]:
    """Time both in turn, in short blocks, changing who goes first.

    The first calls of a block are not counted: they pay for the pages of memory that the other
    side's last ones gave back.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(max(2, rounds // BLOCK)):
        for side in (0, 1) if turn % 2 else (1, 0):
            call = (ours, bare)[side]
            for _ in range(UNCOUNTED):
                await call()
            for _ in range(BLOCK):
                times[side].append(await timed(call))
    return times


def calls(tools: Dispatcher, client: httpx.AsyncClient, origin: str) -> tuple[Call, Call]:
    """Return the tool call and the same request made by bare httpx."""
    request = {
        "query": QUESTION,
        "mode": "mix",
        "top_k": 20,
        "include_references": True,
        "include_chunk_content": False,
    }
    body = json.dumps(request, separators=(",", ":")).encode()
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "X-API-Key": "k-123",
    }

    async def ours() -> object:
        return await tools.call("dsh_lightrag_query", {"question": QUESTION})

    async def bare() -> object:
        response = await client.post(f"{origin}/query", content=body, headers=headers)
        return response.json()

    return ours, bare


def at_once(call: Call) -> Call:
    """Return a call that makes a hundred side by side."""

    async def batch() -> object:
        return await asyncio.gather(*(call() for _ in range(CONCURRENT)))

    return batch


async def requests(rounds: int, batches: int) -> list[tuple[str, float, float]]:
    """Measure single calls of each size, then calls side by side."""
    rows = []
    for label, size in SIZES.items():
        async with served(size) as origin:
            settings = LightRagSettings(endpoint=origin, apiKey="k-123")
            async with toolbox(settings) as tools, httpx.AsyncClient(trust_env=False) as client:
                ours, bare = calls(tools, client, origin)
                times = await interleaved(ours, bare, rounds)
                one, other = map(statistics.median, times)
                rows.append((f"one call, {label} answer", one, other))
                if label == "1 KB":
                    times = await interleaved(at_once(ours), at_once(bare), batches)
                    one, other = map(statistics.median, times)
                    rows.append((f"{CONCURRENT} calls at once", one, other))
    return rows


def imports(rounds: int) -> tuple[str, float, float]:
    """Measure fresh interpreters that import the package, or its libraries alone."""

    def once(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - the two lines above
        return time.perf_counter() - started

    for code in (OURS, BARE):
        once(code)
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(once(OURS))
        bare.append(once(BARE))
    return ("import, whole process", statistics.median(ours), statistics.median(bare))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--imports", type=int, default=15)
    options = parser.parse_args()
    with Path(os.devnull).open("w") as quiet, redirect_stderr(quiet):  # the log is still written
        rows = asyncio.run(requests(options.calls, options.batches))
    rows.append(imports(options.imports))
    print(f"Python {platform.python_version()}, httpx {httpx.__version__}, medians, interleaved\n")
    print("| what | dsh-lightrag | bare | ratio |\n|---|---|---|---|")
    for what, ours, bare in rows:
        print(f"| {what} | {ours * 1e3:.2f} ms | {bare * 1e3:.2f} ms | {ours / bare:.2f} |")


if __name__ == "__main__":
    main()
