"""What the MCP face costs: start, calls, memory, and the bytes that an agent's context pays.

    python benchmarks/mcp.py [--starts 9] [--calls 200] [--peers FOLDER] [--no-peers]

Four servers over stdio, turn by turn in one run, so that a drift of the machine meets all: ours,
a bare one-tool server on the same SDK, and two peers from PyPI, which need the SDK's first major
version and so get an environment each, made here (or found in FOLDER). Calls ask one loopback
server with a canned answer; the bare server's tool asks nothing, so its figures are the floor.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUESTION = "Who discovered polonium?"
BATCH = 20
PEERS = ("razumhub-lightrag-mcp", "lightrag-mcp")

KNOWLEDGE = """
import asyncio, json
BODY = json.dumps({"response": "Marie Curie did. " * 60, "llm_generated": True,
                   "references": [{"reference_id": "1", "file_path": "curie.txt"}]}).encode()
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n"
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\\r\\n")[0]
            await reader.readexactly(int(length or 0))
            writer.write(HEAD % len(BODY) + BODY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

BARE = """
import asyncio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def list_tools(context, params):
    schema = {"type": "object", "properties": {"question": {"type": "string"}}}
    return types.ListToolsResult(
        tools=[types.Tool(name="echo", description="Echo.", input_schema=schema)])
async def call_tool(context, params):
    return types.CallToolResult(content=[types.TextContent(text=params.arguments["question"])])
async def main():
    server = Server("bare", version="0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
asyncio.run(main())
"""


@dataclass
class Contestant:
    """A server, and what was measured of it."""

    name: str
    command: list[str]
    tool: str
    arguments: dict[str, Any]
    starts: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    rss_mb: float = 0.0
    list_bytes: int = 0


class Session:
    """One child process, its handshake done and its tools listed."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        started = time.perf_counter()
        self.child = subprocess.Popen(  # noqa: S603 - our own command lines
            contestant.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.child.stdin is not None  # noqa: S101 - asked for above, as is the next
        assert self.child.stdout is not None  # noqa: S101 - as above
        self.stdin, self.stdout = self.child.stdin, self.child.stdout
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "0"},
        }
        self.send("initialize", hello, 1)
        self.send("notifications/initialized", {}, None)
        self.send("tools/list", {}, 2)
        self.receive(1)
        line = self.receive(2)
        contestant.starts.append(time.perf_counter() - started)
        contestant.list_bytes = len(line)
        self.ident = 2

    def send(self, method: str, params: dict[str, Any], ident: int | None) -> None:
        """Write a request, or a notification where there is no id."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if ident is not None:
            message["id"] = ident
        self.stdin.write(json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def receive(self, ident: int) -> bytes:
        """Return the line that answers a request."""
        while line := self.stdout.readline():
            if json.loads(line).get("id") == ident:
                return line
        raise SystemExit(f"{self.contestant.name} ended before it answered")

    def call(self) -> None:
        """Make one call, and time it."""
        self.ident += 1
        params = {"name": self.contestant.tool, "arguments": self.contestant.arguments}
        started = time.perf_counter()
        self.send("tools/call", params, self.ident)
        answer = json.loads(self.receive(self.ident))
        self.contestant.calls.append(time.perf_counter() - started)
        if "error" in answer or answer["result"].get("isError"):
            raise SystemExit(f"{self.contestant.name} failed: {json.dumps(answer)[:500]}")

    def end(self) -> None:
        """Note the memory, then end the process and note the CPU that it took."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        kilobytes = int(status.partition("VmRSS:")[2].split()[0])
        self.contestant.rss_mb = max(self.contestant.rss_mb, kilobytes / 1024)
        self.child.kill()
        self.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        _, _, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = 0
        self.contestant.cpu.append(usage.ru_utime + usage.ru_stime)


def peer(name: str, folder: Path, port: str) -> Contestant:
    """Return a peer, installed into an environment of its own (both are the same module)."""
    home = folder / name
    if not (home / "bin" / name).exists():
        venv.create(home, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "mcp<2", name], check=True)  # noqa: S603 - as above
    command = [str(home / "bin" / name), "--host", "127.0.0.1", "--port", port]
    return Contestant(name, command, "query_document", {"query": QUESTION})


def measure(contestants: list[Contestant], starts: int, calls: int) -> None:
    """Start each in turn, again and again; then let each make a batch of calls in turn."""
    for turn in range(starts + 1):
        for contestant in contestants if turn % 2 else contestants[::-1]:
            Session(contestant).end()
    for contestant in contestants:  # the first start compiled and filled the disk cache
        del contestant.starts[0], contestant.cpu[0]
    cold = {contestant.name: list(contestant.starts) for contestant in contestants}
    cpu = {contestant.name: list(contestant.cpu) for contestant in contestants}
    sessions = [Session(contestant) for contestant in contestants]
    for session in sessions:
        for _ in range(BATCH):
            session.call()
        session.contestant.calls.clear()
    for turn in range(max(1, calls // BATCH)):
        for session in sessions if turn % 2 else sessions[::-1]:
            for _ in range(BATCH):
                session.call()
    for session in sessions:
        session.end()
        session.contestant.starts = cold[session.contestant.name]
        session.contestant.cpu = cpu[session.contestant.name]


def table(contestants: list[Contestant]) -> str:
    """Return the figures as Markdown: medians, and ratios against the bare server."""
    bare = next(one for one in contestants if one.name == "bare")

    def ratios(pick: Any) -> list[str]:
        """Return the median of the ratios turn by turn, which a drift of the machine spares."""
        turns = [zip(pick(one), pick(bare), strict=True) for one in contestants]
        return [f"{median(own / floor for own, floor in turn):.2f}x" for turn in turns]

    median = statistics.median
    rows = [
        ("start to `tools/list`, ms", [f"{median(c.starts) * 1e3:.0f}" for c in contestants]),
        ("… ratio", ratios(lambda c: c.starts)),
        ("CPU of a start, ms", [f"{median(c.cpu) * 1e3:.0f}" for c in contestants]),
        ("… ratio", ratios(lambda c: c.cpu)),
        ("calls per second", [f"{len(c.calls) / sum(c.calls):.0f}" for c in contestants]),
        ("call, p50 ms", [f"{median(c.calls) * 1e3:.2f}" for c in contestants]),
        ("memory after the calls, MB", [f"{c.rss_mb:.0f}" for c in contestants]),
        ("bytes of `tools/list`", [f"{c.list_bytes}" for c in contestants]),
    ]
    lines = [["", *(one.name for one in contestants)], ["---"] * (len(contestants) + 1)]
    lines += [[label, *values] for label, values in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--starts", type=int, default=9)
    options.add_argument("--calls", type=int, default=200)
    options.add_argument("--peers", type=Path, help="folder to keep the peers' environments in")
    options.add_argument("--no-peers", action="store_true")
    given = options.parse_args()
    knowledge = subprocess.Popen([sys.executable, "-c", KNOWLEDGE], stdout=subprocess.PIPE)  # noqa: S603 - as above
    with tempfile.TemporaryDirectory() as temporary, knowledge:
        assert knowledge.stdout is not None  # noqa: S101 - asked for above
        port = knowledge.stdout.readline().decode().strip()
        ours = [sys.executable, "-m", "dsh_lightrag", "mcp"]
        ours += ["--endpoint", f"http://127.0.0.1:{port}"]
        contestants = [
            Contestant("ours", ours, "dsh_lightrag_query", {"question": QUESTION}),
            Contestant("bare", [sys.executable, "-c", BARE], "echo", {"question": QUESTION}),
        ]
        if not given.no_peers:
            folder = given.peers or Path(temporary)
            contestants += [peer(name, folder, port) for name in PEERS]
        measure(contestants, given.starts, given.calls)
        knowledge.terminate()
    print(table(contestants))


if __name__ == "__main__":
    main()
