"""The whole `POST /query/data` in naive mode over HTTP: the real LightRAG server beside ours.

python benchmarks/http_query.py [--documents 200] [--questions 100]

Both servers hold the same documents and ask the same stub for embeddings, which answers at once;
LightRAG's chat model is the same stub. The same questions go to both by turns, in short blocks, one
at a time; each server's first questions are not counted. The figure to read is the ratio. Needs
the extras `lightrag` and `server`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
from serving import Texts, insert, machine, our_server, quantiles, wait_until_processed

from dsh_lightrag.demo.server import LightRagServer
from dsh_lightrag.demo.stub_model import EMBEDDING_MODEL, StubModel

BLOCK, UNCOUNTED = 5, 5
NAMES = ("LightRAG", "ours")


def ask(client: httpx.Client, question: str) -> tuple[float, int]:
    """Return how long the answer took, in seconds, and how many chunks it has."""
    body = {"query": question, "mode": "naive", "top_k": 10, "chunk_top_k": 10}
    begun = time.perf_counter()
    answer = client.post("/query/data", json=body)
    took = time.perf_counter() - begun
    # Where LightRAG finds nothing, `data` is empty.
    return took, len(answer.raise_for_status().json()["data"].get("chunks", []))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--questions", type=int, default=100)
    arguments = parser.parse_args()
    texts = Texts()
    documents = [texts.text() for _ in range(arguments.documents)]
    questions = [texts.question() for _ in range(arguments.questions + UNCOUNTED)]
    with ExitStack() as stack:
        stub = stack.enter_context(StubModel())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        theirs = stack.enter_context(LightRagServer(stub)).url
        flags = ("--embedder", stub.url, "--embedder-model", EMBEDDING_MODEL)
        ours, _ = stack.enter_context(our_server(folder, *flags))
        clients = [
            stack.enter_context(httpx.Client(base_url=url, timeout=120, trust_env=False))
            for url in (theirs, ours)
        ]
        for name, client in zip(NAMES, clients, strict=True):
            begun = time.perf_counter()
            insert(client, documents)
            wait_until_processed(client, len(documents))
            took = time.perf_counter() - begun
            print(f"{name}: {len(documents)} documents processed after {took:.1f} s", flush=True)
        times: tuple[list[float], list[float]] = ([], [])
        chunks = [0, 0]
        for client in clients:
            for question in questions[:UNCOUNTED]:
                ask(client, question)
        counted = questions[UNCOUNTED:]
        for turn, start in enumerate(range(0, len(counted), BLOCK)):
            for side in (0, 1) if turn % 2 else (1, 0):
                for question in counted[start : start + BLOCK]:
                    took, found = ask(clients[side], question)
                    times[side].append(took)
                    chunks[side] += found
    print(f"\n{machine()}; {len(counted)} questions, naive, 10 chunks wanted\n")
    print("| server | p50 ms | p95 ms | chunks an answer |\n| --- | --- | --- | --- |")
    for side, name in enumerate(NAMES):
        p50, p95 = quantiles(times[side])
        print(f"| {name} | {p50:.1f} | {p95:.1f} | {chunks[side] / len(counted):.1f} |")
    (their50, their95), (our50, our95) = map(quantiles, times)
    print(f"\nLightRAG / ours: p50 {their50 / our50:.1f}, p95 {their95 / our95:.1f}")


if __name__ == "__main__":
    main()
