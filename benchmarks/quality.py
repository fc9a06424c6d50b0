"""How well the engine finds the passages that answer questions, signal by signal.

python benchmarks/quality.py --data DIR [--half reported|chosen|all] [--set NAME ...]

DIR holds one folder per collection with `corpus.jsonl` {id, title, text} and `queries.jsonl`
{id, text, gold: [passage ids]}. Settings were chosen on the questions at even positions of each
file (`--half chosen`); the figures are those of the odd positions (`--half reported`), which chose
no setting. A passage counts as found when any chunk of it is. Two collections are bundled: `plain`
names nobody, and there three signals must be as good as two; `sparse` are technical notes with few
names, often beside the point of a question, and there the graph may cost next to nothing. All of
their questions are asked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsh_lightrag.engine import Document, Embedder, Engine, EngineOptions, MiniLM, Mode, Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BUNDLED = [Path(__file__).with_name(name) for name in ("plain", "sparse")]
RESAMPLES = 1000
CHUNKS_ASKED = 60  # enough chunks for ten different passages
MEASURES = ("R@2", "R@5", "R@10", "nDCG@10", "all@8")
GRAPH = (Signal.ENTITIES, Signal.RELATIONS, Signal.CONTEXT)
SIGNALS = {
    "BM25": {Signal.KEYWORDS},
    "graph alone": set(GRAPH),
    "BM25 + graph (no embedder)": {Signal.KEYWORDS, *GRAPH},
    "vectors": {Signal.VECTORS},
    "two signals": {Signal.VECTORS, Signal.KEYWORDS},
    "three signals": set(Signal),
}


class Remembering:
    """An embedder that keeps what it has worked out, for embedding is what takes the time."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self.identity, self.dimension = embedder.identity, embedder.dimension
        self._kept = sqlite3.connect(path, check_same_thread=False)
        self._kept.execute("CREATE TABLE IF NOT EXISTS v (k TEXT PRIMARY KEY, d BLOB)")

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text, from the file where it has been worked out before."""
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        rows = [
            self._kept.execute("SELECT d FROM v WHERE k = ?", (key,)).fetchone() for key in keys
        ]
        missing = [index for index, row in enumerate(rows) if row is None]
        if missing:
            fresh = self._embedder.embed([texts[index] for index in missing], query=query)
            for index, row in zip(missing, fresh, strict=True):
                rows[index] = (row.astype("<f4").tobytes(),)
                self._kept.execute(
                    "INSERT OR IGNORE INTO v VALUES (?, ?)", (keys[index], *rows[index])
                )
            self._kept.commit()
        return np.array([np.frombuffer(row[0], "<f4") for row in rows])


def load(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    questions = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    return corpus, questions


def build(path: Path, corpus: list[dict[str, Any]], embedder: Embedder | None) -> None:
    begun = time.perf_counter()
    with Engine.open(path, embedder=embedder) as engine:
        for passage in corpus:
            engine.insert(Document(passage["text"], title=passage["title"], id=passage["id"]))
        inserted = time.perf_counter() - begun
        chunks = engine.catch_up().chunks
    print(
        f"  {len(corpus)} passages, {chunks} chunks, inserted in {inserted:.0f} s", file=sys.stderr
    )


def passages(engine: Engine, question: str) -> list[str]:
    """Return the ids of the ten best passages."""
    answer = engine.query(question, Mode.MIX, CHUNKS_ASKED)
    return list(dict.fromkeys(hit.chunk.document_id for hit in answer.hits))[:10]


def measures(found: list[str], wanted: list[str]) -> list[float]:
    """Return one question's row of MEASURES, each 0..1."""
    gold = set(wanted)
    recall = [len(gold & set(found[:k])) / len(gold) for k in (2, 5, 10)]
    gain = sum(1 / np.log2(place + 2) for place, id_ in enumerate(found) if id_ in gold)
    ideal = sum(1 / np.log2(place + 2) for place in range(min(10, len(gold))))
    return [*recall, gain / ideal, float(gold <= set(found[:8]))]


def intervals(measured: list[list[float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and the half-widths of their 95 % bootstrap intervals, in points."""
    rows = 100 * np.array(measured)
    draws = np.random.default_rng(7).integers(len(rows), size=(RESAMPLES, len(rows)))
    means = rows[draws].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return rows.mean(axis=0), (high - low) / 2


def options(asked: set[Signal]) -> EngineOptions:
    """Return the default options with every other signal silent."""
    defaults = EngineOptions()
    weights = {signal: value for signal, value in defaults.weights.items() if signal in asked}
    return replace(defaults, weights=weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", action="append", dest="sets", help="one collection (default: all)")
    parser.add_argument("--half", choices=("reported", "chosen", "all"), default="reported")
    parser.add_argument("--cache", type=Path, help="file that keeps vectors between runs")
    parser.add_argument("--bases", type=Path, help="folder that keeps the bases between runs")
    parser.add_argument("--no-embedder", action="store_true")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        bases = arguments.bases or Path(scratch)
        cache = arguments.cache or Path(scratch) / "vectors.db"
        embedder = None if arguments.no_embedder else Remembering(MiniLM(threads=1), cache)
        print("| collection | questions | signals | " + " | ".join(MEASURES) + " |")
        print("| --- | --- | --- | " + "--- | " * len(MEASURES))
        folders = sorted(path for path in arguments.data.iterdir() if path.is_dir())
        for folder in [*folders, *BUNDLED]:
            if not arguments.sets or folder.name in arguments.sets:
                report(folder, bases, embedder, "all" if folder in BUNDLED else arguments.half)


def report(folder: Path, bases: Path, embedder: Embedder | None, half: str) -> None:
    corpus, questions = load(folder)
    questions = {"chosen": questions[::2], "reported": questions[1::2], "all": questions}[half]
    path = bases / f"{folder.name}{'' if embedder else '.plain'}.base"
    if not path.exists():
        build(path, corpus, embedder)
    for name, asked in SIGNALS.items():
        if Signal.VECTORS in asked and embedder is None:
            continue
        with Engine.open(path, embedder=embedder, options=options(asked)) as engine:
            rows = [
                measures(passages(engine, asked_["text"]), asked_["gold"]) for asked_ in questions
            ]
        cells = [f"{mean:.1f} ± {width:.1f}" for mean, width in zip(*intervals(rows), strict=True)]
        print(f"| {folder.name} | {len(rows)} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
