"""What the gateway costs: putting, searching idle and during ingestion, and many bases.

    python benchmarks/gateway.py [--documents 1000] [--bases 1 100 1000] [--searches 200]

`gateway up` runs on its embedded PostgreSQL, or on the database that DSH_GATEWAY_DATABASE_URL
names, in processes of its own; everything is asked over sockets, searches over MCP with a session
token. Bases come first, a document in each: memory of the three processes, and searches of bases
that are open in the knowledge server (warm) and of such that it has closed (cold). Then documents
are put into ten other bases, one after the other, while one client searches. Idle is measured
before and after that. Without an embedding model, so that the model is not what is measured. As
root the database runs as the system user `pgserver`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import psycopg
from serving import Texts, machine

from dsh_lightrag.cli.gateway.flags import DATABASE_VARIABLE
from dsh_lightrag.cli.gateway.place import running_gateway
from dsh_lightrag.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = [sys.executable, "-m", "dsh_lightrag", "gateway"]
PARTS = ("knowledge server", "worker", "API")
MIB = 1024
INGESTING_BASES, HELD_DOCUMENTS = 10, 50
COLD = 20
AT_ONCE = 8
MOST_OPEN = ServerSettings(Path()).most_open
# In every text and question, so that every search finds something.
COMMON = "harbour"
PATIENCE_S = 900.0
QUOTA = "1000000"
UNFINISHED = (
    "SELECT count(*) FILTER (WHERE status IN ('pending', 'indexing')),"
    " count(*) FILTER (WHERE status = 'failed') FROM gateway_knowledge_document"
)


# --- a gateway, asked over sockets ------------------------------------------------------------


@contextmanager
def gateway_up(data: Path) -> Iterator[tuple[str, list[int]]]:
    """Run `gateway up`; yields its URL and the process ids of its parts."""
    arguments = ["up", "--port", "0", "--embedder", "none", "--data", str(data)]
    if os.geteuid() == 0:
        arguments.append("--allow-root")
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as up:  # noqa: S603 - our own command
        try:
            words = up.stdout.readline().split() if up.stdout else []
            if not words:
                raise SystemExit("the gateway did not start")
            children = Path(f"/proc/{up.pid}/task/{up.pid}/children").read_text(encoding="ascii")
            by_command = {_command(int(pid)): int(pid) for pid in children.split()}
            found = [
                next(pid for line, pid in by_command.items() if mark in line)
                for mark in (" serve ", " gateway worker ", " gateway api ")
            ]
            yield next(word for word in words if word.startswith("http")), found
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(90)


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / MIB


def team_key(data: Path) -> str:
    """Return the key of a new team."""

    def told(*arguments: str) -> str:
        command = [*COMMAND, *arguments, "--data", str(data)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - as above

    told("team", "create", "bench")
    return told("key", "create", "bench", "--team", "bench", "--quota-per-minute", QUOTA)


@dataclass
class Gateway:
    """The gateway as a team uses it."""

    http: httpx.AsyncClient
    key: dict[str, str]
    database_url: str
    tokens: dict[str, dict[str, str]] = field(default_factory=dict)

    async def base(self, name: str) -> str:
        """Make a base; return its id."""
        return str((await self._post("/knowledge-bases", name=name))["id"])

    async def open_sessions(self, bases: list[str]) -> None:
        """Take a session token for each base that has none yet."""
        for base in bases:
            if base not in self.tokens:
                issued = await self._post("/session-tokens", sessionId="bench", baseIds=[base])
                self.tokens[base] = {"authorization": f"Bearer {issued['token']}"}

    async def put(self, base: str, external_id: str, text: str) -> float:
        """Put a text; return the seconds until it was acknowledged."""
        begun = time.perf_counter()
        answer = await self.http.put(
            f"/knowledge-bases/{base}/documents/text",
            json={"externalId": external_id, "text": f"{text} {COMMON}"},
            headers=self.key,
        )
        took = time.perf_counter() - begun
        answer.raise_for_status()
        return took

    async def search(self, base: str, question: str) -> float:
        """Search a base over MCP; return the seconds."""
        arguments = {"query": f"{question} {COMMON}", "mode": "naive"}
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "knowledge_search", "arguments": arguments},
        }
        headers = self.tokens[base] | {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-11-25",
        }
        begun = time.perf_counter()
        answer = await self.http.post("/mcp", json=message, headers=headers)
        took = time.perf_counter() - begun
        result = answer.raise_for_status().json()["result"]
        if result.get("isError") or not result["structuredContent"]["passages"]:
            raise SystemExit(f"a search found nothing: {result}")
        return took

    async def indexed(self) -> None:
        """Wait until every document is indexed; end the benchmark where one failed."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            async with await psycopg.AsyncConnection.connect(self.database_url) as connection:
                row = await (await connection.execute(UNFINISHED)).fetchone()
            if row is None or row[1]:
                raise SystemExit("a document failed")
            if not row[0]:
                return
            await asyncio.sleep(0.25)
        raise SystemExit(f"not everything was indexed in {PATIENCE_S:.0f} s")

    async def _post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.http.post(path, json=body, headers=self.key)
        return dict(answer.raise_for_status().json())


# --- what is measured -------------------------------------------------------------------------


class Table:
    """Rows of figures, printed as Markdown while they come."""

    def __init__(self) -> None:
        self.write("What", "p50 ms", "p95 ms", "p99 ms", "n", "more")
        self.write(*6 * ["---"])

    def write(self, *cells: str) -> None:
        """Print one row."""
        print("|", " | ".join(cells), "|", flush=True)

    def times(self, what: str, seconds: list[float], more: str = "") -> float:
        """Print quantiles of a list of times; return the median in milliseconds."""
        p50, p95, p99 = np.percentile(1000 * np.array(seconds), [50, 95, 99])
        self.write(what, f"{p50:.1f}", f"{p95:.1f}", f"{p99:.1f}", str(len(seconds)), more)
        return float(p50)


async def many_bases(
    gateway: Gateway, pids: list[int], table: Table, texts: Texts, asked: argparse.Namespace
) -> list[str]:
    """Measure memory and searches at each number of bases; return the bases."""
    bases: list[str] = []
    memory: dict[int, list[float]] = {}
    for size in asked.bases:
        begun = time.perf_counter()
        while len(bases) < size:
            numbers = range(len(bases), min(size, len(bases) + AT_ONCE))
            fresh = await asyncio.gather(*(gateway.base(f"base {number}") for number in numbers))
            puts = [
                gateway.put(base, f"doc-{number}", texts.text())
                for place, base in enumerate(fresh)
                for number in range(HELD_DOCUMENTS if not bases and not place else 1)
            ]
            await asyncio.gather(*puts)
            bases += fresh
        await gateway.indexed()
        # The first bases were opened the longest ago, and those are searched.
        warm = bases[: 1 + COLD]
        await gateway.open_sessions(warm)
        made = f"made and indexed in {time.perf_counter() - begun:.0f} s"
        memory[size] = [resident_mib(pid) for pid in pids]
        told = ", ".join(f"{part} {mib:.0f}" for part, mib in zip(PARTS, memory[size], strict=True))
        table.write(f"memory at {size} base(s), MiB", "", "", "", "", f"{told}; {made}")
        if size > MOST_OPEN + COLD:
            cold = [await gateway.search(base, texts.question()) for base in warm[1:]]
            table.times(f"first search of a closed base, {size} bases", cold)
        await gateway.search(warm[0], texts.question())
        found = [
            await gateway.search(base, texts.question())
            for base in itertools.islice(itertools.cycle(warm), asked.searches)
        ]
        table.times(f"search of open bases, {size} bases", found)
    small, large = asked.bases[0], asked.bases[-1]
    if large > small:
        idle = (sum(memory[large]) - sum(memory[small])) / (large - small)
        table.write(
            f"a further base, MiB (at most {MOST_OPEN} open)",
            "",
            "",
            "",
            "",
            f"{idle:.3f} (aim at most 0.3)",
        )
    return bases


async def ingestion(
    gateway: Gateway, base: str, table: Table, texts: Texts, asked: argparse.Namespace
) -> None:
    """Measure putting, and searching one base idle and while others are filled."""

    async def idle() -> list[float]:
        return [await gateway.search(base, texts.question()) for _ in range(asked.searches // 2)]

    others = [await gateway.base(f"ingesting {number}") for number in range(INGESTING_BASES)]
    await gateway.open_sessions([base])
    before = await idle()
    took: list[float] = []
    during: list[float] = []

    async def fill() -> None:
        for number in range(asked.documents):
            into = others[number % len(others)]
            took.append(await gateway.put(into, f"doc-{number}", texts.text()))
        await gateway.indexed()

    begun = time.perf_counter()
    filling = asyncio.create_task(fill())
    while not filling.done():
        during.append(await gateway.search(base, texts.question()))
    await filling
    seconds = time.perf_counter() - begun
    table.times(
        "put a text", took, f"{asked.documents} documents put and indexed in {seconds:.0f} s"
    )
    at_rest = table.times("search, idle", [*before, *await idle()])
    busy = table.times("search, during ingestion", during)
    table.write("ratio of the medians", f"{busy / at_rest:.2f}", "", "", "", "aim at most 1.3")


async def measure(
    url: str, pids: list[int], key: str, database_url: str, asked: argparse.Namespace
) -> None:
    texts = Texts()
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as http:
        gateway = Gateway(http, {"authorization": f"Bearer {key}"}, database_url)
        table = Table()
        bases = await many_bases(gateway, pids, table, texts, asked)
        await ingestion(gateway, bases[0], table, texts, asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--bases", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--searches", type=int, default=200)
    asked = parser.parse_args()
    print(f"{machine()}; database: {'given' if DATABASE_VARIABLE in os.environ else 'embedded'}\n")
    with tempfile.TemporaryDirectory(prefix="dsh-gateway-", dir="/tmp") as folder:
        data = Path(folder)
        data.chmod(0o755)  # the database's user passes through it
        with gateway_up(data) as (url, pids):
            key = team_key(data)
            running = running_gateway(data / "gateway")
            if running is None:
                raise SystemExit("the gateway has ended")
            asyncio.run(measure(url, pids, key, running.database_url, asked))
    print(f"\nAt the end: {machine()}")


if __name__ == "__main__":
    main()
