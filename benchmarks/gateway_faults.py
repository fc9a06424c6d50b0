"""Kills the gateway's worker, knowledge server and database at random, and counts what is lost.

Each run puts, changes and deletes documents of three bases, kills one part with SIGKILL at a random
moment, starts it again, and waits for the queue to drain. Then every document that was acknowledged
must be indexed in its newest version, that version must be found and be the only one on the server,
deleted documents must be gone, and no job may be left.

    python benchmarks/gateway_faults.py --runs 50 --out faults.json

As root the database runs as the system user `pgserver`. Exits with 1 when a run broke the rule.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from dsh_lightrag import LightRagSettings, wire
from dsh_lightrag.errors import LightRagError
from dsh_lightrag.gateway import bases, documents
from dsh_lightrag.gateway.database import Database
from dsh_lightrag.gateway.documents import TextPut
from dsh_lightrag.gateway.embedded_postgres import EmbeddedPostgres
from dsh_lightrag.gateway.knowledge import KnowledgeServer
from dsh_lightrag.gateway.tables import Team
from dsh_lightrag.gateway.worker import Worker
from dsh_lightrag.server.embedded.keeper import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.serve import serve
from dsh_lightrag.server.settings import ServerSettings

DATABASE_URL = "GATEWAY_FAULTS_DATABASE_URL"
PARTS = ("worker", "server", "database")
BASES = 3
IDS = 6
CHANGES = 10
SHARED, REMOVED = 0.2, 0.2  # shares of texts that are the same, and of deletions
DRAINED_S = 120.0
AWAY = (DBAPIError, psycopg.OperationalError, OSError)


# --- the parts, each a process ----------------------------------------------------------------


async def run_worker(server_url: str) -> None:
    database = Database(os.environ[DATABASE_URL])
    server = KnowledgeServer(LightRagSettings(endpoint=server_url))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await Worker(database, server, no_fetch, audit_days=1).run(stop)


async def no_fetch(url: str) -> Any:
    raise AssertionError(url)


async def run_server(data: str, port: str) -> None:
    keeper = EmbeddedKeeper(EmbeddedSettings(Path(data), embedder="none"))
    await serve(keeper, ServerSettings(Path(data), port=int(port)), lambda _: None)


@dataclass
class Stage:
    """The three parts, and how each is killed and started again."""

    folder: Path
    port: int
    postgres: EmbeddedPostgres
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def server_url(self) -> str:
        """Where the knowledge server listens, every time it is started."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, part: str) -> None:
        """Start a part on what it left."""
        if part == "database":
            self.postgres.start()
            return
        arguments = {
            "worker": [self.server_url],
            "server": [str(self.folder / "server"), str(self.port)],
        }[part]
        with (self.folder / f"{part}.log").open("ab") as log:
            self.processes[part] = subprocess.Popen(  # noqa: S603 - this very script
                [sys.executable, __file__, "part", part, *arguments],
                stdout=log,
                stderr=log,
                # Not an argument: those are everybody's to read.
                env=os.environ | {DATABASE_URL: self.postgres.url},
            )
        if part == "server":
            wait_for_http(f"{self.server_url}/health")

    def kill(self, part: str) -> None:
        """Kill a part with SIGKILL."""
        if part == "database":
            self.postgres.kill()
            return
        self.processes[part].kill()
        self.processes[part].wait(30)

    def close(self) -> None:
        """End all parts."""
        for process in self.processes.values():
            process.terminate()
            process.wait(60)
        self.postgres.stop()


def wait_for_http(url: str) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - our own server
        except urllib.error.URLError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(url)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- what is put, and what must be there ------------------------------------------------------


@dataclass
class Shelf:
    """A base, and what was acknowledged of it: the newest text by external id."""

    team_id: Any
    base_id: Any
    workspace: str
    held: dict[str, str] = field(default_factory=dict)


class Change(NamedTuple):
    """A document to be put, or to be deleted when there is no body."""

    shelf: Shelf
    external_id: str
    body: str | None


async def change(database: Database, one: Change) -> None:
    """Put or delete one document; while the database is away, again until it is acknowledged."""
    shelf, external_id, body = one
    while True:
        try:
            async with database.sessions.begin() as session:
                if body is None:
                    await documents.delete_document(session, shelf.base_id, external_id)
                else:
                    await documents.put_document(
                        session,
                        shelf.base_id,
                        external_id,
                        source="catalog",
                        name=external_id,
                        content=TextPut(body),
                    )
        except LightRagError:
            break  # deleted by a transaction whose acknowledgement was lost
        except AWAY:
            await asyncio.sleep(0.1)
        else:
            break
    if body is None:
        shelf.held.pop(external_id, None)
    else:
        shelf.held[external_id] = body


def changes(shelves: list[Shelf], chance: random.Random, run: int) -> list[Change]:
    """Return what to change: each document at most once, so that its newest text is known."""
    all_of_them = [(shelf, f"doc-{n}") for shelf in shelves for n in range(IDS)]
    chosen = []
    for shelf, external_id in chance.sample(all_of_them, CHANGES):
        words = "shared" if chance.random() < SHARED else f"run{run}{external_id}"
        body = f"The keeper of {words} writes of {words} in the log of the lighthouse."
        remove = external_id in shelf.held and chance.random() < REMOVED
        chosen.append(Change(shelf, external_id, None if remove else body))
    return chosen


async def faults_of(database: Database, server: KnowledgeServer, shelf: Shelf) -> list[str]:
    """Return what is not as it must be, in words."""
    async with database.sessions() as session:
        rows = await documents.list_documents(session, shelf.base_id, limit=1000)
        named = await documents.current_names(session, shelf.base_id)
        jobs = await session.scalar(text("SELECT count(*) FROM procrastinate_jobs"))
    wrong = [f"jobs left: {jobs}"] if jobs else []
    if {row.external_id for row in rows} != set(shelf.held):
        wrong.append("the list of documents is not what was acknowledged")
    wrong += [
        f"a document is {row.status} ({row.error})" for row in rows if row.status != "indexed"
    ]
    answering = Counter(one.external_id for group in named.values() for one in group)
    if answering != Counter(list(shelf.held)):
        wrong.append("not exactly one version of each document answers")
    if not shelf.held and not named:
        return wrong
    on_server = Counter([row.file_path async for row in server.documents(shelf.workspace)])
    if on_server != Counter(list(named)):
        wrong.append(f"the server holds {len(on_server)} texts where {len(named)} answer")
    files = {one.external_id: name for name, group in named.items() for one in group}
    for external_id, body in shelf.held.items():
        request = wire.QueryDataRequest(query=body, mode="naive", top_k=5)
        found = (await server.client(shelf.workspace).query_data(request)).data.chunks
        if not any(
            one.file_path == files.get(external_id) and one.content == body for one in found
        ):
            wrong.append("a newest version is not found")
    return wrong


async def drained(database: Database, server: KnowledgeServer, shelves: list[Shelf]) -> list[str]:
    """Wait until all is as it must be; return what is not when the time is up."""
    ends = time.monotonic() + DRAINED_S
    wrong = ["nothing was looked at"]
    while wrong and time.monotonic() < ends:
        try:
            wrong = [one for shelf in shelves for one in await faults_of(database, server, shelf)]
        except (*AWAY, LightRagError) as error:
            wrong = [f"cannot be looked at: {type(error).__name__}"]
        if wrong:
            await asyncio.sleep(0.25)
    return wrong


# --- the runs ---------------------------------------------------------------------------------


async def runs_of(stage: Stage, runs: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)  # noqa: S311 - reproducible
    database = Database(stage.postgres.url)
    await database.migrate()
    server = KnowledgeServer(LightRagSettings(endpoint=stage.server_url))
    shelves = await made_shelves(database)
    stage.start("server")
    stage.start("worker")
    results = []
    for run in range(runs):
        part = PARTS[run % len(PARTS)]
        begun = time.monotonic()
        changing = asyncio.gather(*(change(database, one) for one in changes(shelves, chance, run)))
        await asyncio.sleep(chance.uniform(0, 2.0))
        await asyncio.to_thread(stage.kill, part)
        await asyncio.to_thread(stage.start, part)
        await changing
        wrong = await drained(database, server, shelves)
        took = round(time.monotonic() - begun, 1)
        results.append({"run": run, "killed": part, "seconds": took, "wrong": wrong})
        print(f"run {run}: {part} killed, drained after {took} s: {wrong or 'all well'}")
    await server.close()
    await database.close()
    return {
        "runs": runs,
        "seed": seed,
        "documents": sum(len(shelf.held) for shelf in shelves),
        "broken": sum(bool(one["wrong"]) for one in results),
        "results": results,
    }


async def made_shelves(database: Database) -> list[Shelf]:
    async with database.sessions.begin() as session:
        team = Team(name="faults")
        session.add(team)
        await session.flush()
        made = [await bases.create_base(session, team.id, f"base {n}") for n in range(BASES)]
    return [Shelf(team.id, base.id, base.workspace) for base in made]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dsh-faults-", dir="/tmp"))
    folder.chmod(0o755)  # the database's user passes through it
    (folder / "server").mkdir()
    stage = Stage(folder, free_port(), EmbeddedPostgres(folder / "database", allow_root=True))
    stage.start("database")
    try:
        table = asyncio.run(runs_of(stage, asked.runs, asked.seed))
    finally:
        stage.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({key: table[key] for key in ("runs", "seed", "documents", "broken")}))
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return 1 if table["broken"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["part"]:
        part, *arguments = sys.argv[2:]
        programs: dict[str, Any] = {"worker": run_worker, "server": run_server}
        asyncio.run(programs[part](*arguments))
    else:
        sys.exit(main())
