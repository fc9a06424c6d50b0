"""32 clients ask our server over HTTP while 1000 documents go into it: errors, and how long.

python benchmarks/load.py [--clients 32] [--documents 1000] [--seconds 20] [--embedder static]

The base begins with as many documents as will be inserted. Each client asks its next question (mix)
as soon as it has an answer, first for some seconds with nothing else going on, then until all new
documents are processed. Clients run in a process of their own. An error is any status but 200, and
an answer without a chunk. The aim is a p95 at most twice that of the idle server. The embedder
`static` needs the extra of that name; `minilm` embeds about ten chunks a second and core.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Event  # noqa: TC003 - part of a signature that is pickled
from pathlib import Path

import httpx
from serving import Texts, insert, machine, our_server, quantiles, wait_until_processed

_SIGNALS: list[Event] = []  # begun and stop, in the process of the clients


def _begin(*signals: Event) -> None:
    _SIGNALS.extend(signals)


def asked(url: str, clients: int) -> tuple[list[float], list[str]]:
    """Let clients ask until told to stop; return seconds of each answer, and errors."""
    return asyncio.run(_asked(url, clients))


async def _asked(url: str, clients: int) -> tuple[list[float], list[str]]:
    begun_asking, stop = _SIGNALS
    texts = Texts(seed=6)
    questions = [texts.question() for _ in range(100)]
    times: list[float] = []
    errors: list[str] = []

    async def one(number: int, client: httpx.AsyncClient) -> None:
        turn = number * 3
        while not stop.is_set():
            body = {"query": questions[turn % 100], "mode": "mix", "chunk_top_k": 10}
            turn += 1
            begun = time.perf_counter()
            try:
                answer = await client.post("/query/data", json=body)
            except httpx.HTTPError as error:
                errors.append(repr(error))
                continue
            times.append(time.perf_counter() - begun)
            if answer.status_code != httpx.codes.OK or not answer.json()["data"]["chunks"]:
                errors.append(answer.text[:200])

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(
        base_url=url, timeout=120, limits=limits, trust_env=False
    ) as client:
        begun_asking.set()
        await asyncio.gather(*(one(number, client) for number in range(clients)))
    return times, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--embedder", default="static")
    arguments = parser.parse_args()
    documents = arguments.documents
    texts = Texts()
    before = [texts.text() for _ in range(documents)]
    coming = [texts.text() for _ in range(documents)]
    context = get_context("spawn")
    begun_asking, stop = context.Event(), context.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        our_server(Path(folder), "--embedder", arguments.embedder) as (url, _),
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
        ProcessPoolExecutor(1, context, _begin, (begun_asking, stop)) as pool,
    ):
        insert(client, before)
        wait_until_processed(client, documents)

        idle = pool.submit(asked, url, arguments.clients)
        begun_asking.wait(60)
        threading.Timer(arguments.seconds, stop.set).start()
        idle_times, idle_errors = idle.result()

        begun_asking.clear()
        stop.clear()
        during = pool.submit(asked, url, arguments.clients)
        begun_asking.wait(60)
        begun = time.perf_counter()
        insert(client, coming, first=documents)
        inserted = time.perf_counter() - begun
        wait_until_processed(client, 2 * documents)
        ingested = time.perf_counter() - begun
        stop.set()
        during_times, during_errors = during.result()

    print(f"{machine()}; {arguments.clients} clients, mode mix, embedder {arguments.embedder}")
    print(
        f"{documents} documents acknowledged after {inserted:.1f} s, processed after "
        f"{ingested:.1f} s\n"
    )
    print("| | answers | errors | p50 ms | p95 ms |\n| --- | --- | --- | --- | --- |")
    for name, times, errors in (
        ("idle", idle_times, idle_errors),
        ("during", during_times, during_errors),
    ):
        p50, p95 = quantiles(times)
        print(f"| {name} | {len(times)} | {len(errors)} | {p50:.0f} | {p95:.0f} |")
    ratios = [b / a for a, b in zip(quantiles(idle_times), quantiles(during_times), strict=True)]
    print(f"\nduring / idle: p50 {ratios[0]:.2f}, p95 {ratios[1]:.2f} (aim: p95 at most 2)")
    for error in (idle_errors + during_errors)[:3]:
        print(error)
    if idle_errors or during_errors:
        sys.exit(1)


if __name__ == "__main__":
    main()
