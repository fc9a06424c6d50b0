"""How fast the engine is at several sizes: asking, inserting, opening, and what it takes up.

python benchmarks/speed.py [--chunks 1000 10000 100000]

Texts are synthetic (words by Zipf's law, three names a chunk), and so are the vectors: random rows
of 384 numbers, because embedding a hundred thousand chunks would take hours. The time to embed a
question is not part of any figure.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine import Document, Engine, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

SECTIONS = 20  # chunks in one document
WORDS = 70  # in one chunk, so that each section is one chunk
VOCABULARY = 50_000
STOP_WORDS = 100  # the commonest words, which a question's terms leave out
QUESTIONS = 60
MODES = (Mode.NAIVE, Mode.LOCAL, Mode.GLOBAL, Mode.MIX)


class RandomRows:
    """Different rows for every call, alike in every run."""

    identity, dimension = "random-384", 384

    def __init__(self) -> None:
        self._random = np.random.default_rng(3)

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one random row per text."""
        del query
        return self._random.standard_normal((len(texts), self.dimension), dtype=np.float32)


class Writer:
    """Writes texts of made-up words, some of them names."""

    def __init__(self, chunks: int) -> None:
        self._random = np.random.default_rng(5)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
        made = {"".join(self._random.choice(syllables, 3)) for _ in range(3 * VOCABULARY)}
        self._words = np.array(sorted(made)[:VOCABULARY])
        self._random.shuffle(self._words)
        rank = np.arange(1, len(self._words) + 1)
        self._likely = (1 / rank) / (1 / rank).sum()
        self._names = max(30, chunks // 3)

    def name(self) -> str:
        """Return one of the names; some are far more frequent than others."""
        number = int(self._names * self._random.random() ** 3)
        first, last = self._words[-1 - number % 200], self._words[-300 - number // 200]
        return f"{first.title()} {last.title()}"

    def passage(self) -> str:
        """Return one chunk's text."""
        text = list(self._random.choice(self._words, WORDS, p=self._likely))
        for place in (5, 30, 55):
            text[place] = f"with {self.name()}"
        return " ".join(text) + "."

    def document(self, number: int) -> Document:
        """Return a document of so many sections."""
        parts = (f"# part {part}\n{self.passage()}\n" for part in range(SECTIONS))
        return Document("\n".join(parts), title=f"{self.name()} {number}", id=f"d{number}")

    def question(self) -> str:
        """Return a question with two names and four words, none of them a stop word."""
        likely = self._likely[STOP_WORDS:] / self._likely[STOP_WORDS:].sum()
        words = " ".join(self._random.choice(self._words[STOP_WORDS:], 4, p=likely))
        return f"{words} {self.name()} {self.name()}?"


def timed(action: Callable[[], object]) -> float:
    """Return how many milliseconds it takes."""
    begun = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - begun)


def quantiles(times: list[float]) -> str:
    return f"{np.median(times):.1f} / {np.percentile(times, 95):.1f}"


def measure(path: Path, chunks: int) -> list[str]:
    writer, embedder = Writer(chunks), RandomRows()
    begun = time.perf_counter()
    with Engine.open(path, embedder=embedder) as engine:
        for number in range(chunks // SECTIONS):
            engine.insert(writer.document(number))
        engine.catch_up()
    per_second = chunks / (time.perf_counter() - begun)

    held: list[Engine] = []
    opening = timed(lambda: held.append(Engine.open(path, embedder=embedder)))
    with held[0] as engine:
        first = timed(lambda: engine.query(writer.question()))
        asked = {
            mode: [timed(lambda: engine.query(question, mode)) for question in questions]  # noqa: B023 - used at once
            for mode in MODES
            for questions in [[writer.question() for _ in range(QUESTIONS)]]
        }
        inserts, after = [], []
        for number in range(20):
            document = Document(writer.passage(), title=writer.name(), id=f"one{number}")
            inserts.append(timed(lambda: engine.insert(document)))  # noqa: B023 - used at once
            after.append(timed(lambda: engine.query(writer.question())))
        deletes = [timed(lambda: engine.delete(f"one{number}")) for number in range(20)]  # noqa: B023 - as above
        stored = engine.progress().chunks
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        f"{stored}",
        f"{per_second:.0f}",
        f"{opening:.0f}",
        f"{first:.0f}",
        *(quantiles(asked[mode]) for mode in MODES),
        quantiles(after),
        quantiles(inserts),
        quantiles(deletes),
        f"{path.stat().st_size / 2**20:.0f}",
        f"{memory:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[1000, 10_000, 100_000])
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the run\n")
    heads = ["chunks", "ingested a second", "open ms", "first question ms"]
    heads += [f"{mode} ms p50 / p95" for mode in MODES]
    heads += ["mix after a write ms", "insert ms", "delete ms", "file MiB", "peak memory MiB"]
    print("| " + " | ".join(heads) + " |")
    print("| --- " * len(heads) + "|")
    for chunks in arguments.chunks:
        with tempfile.TemporaryDirectory() as folder:
            print(
                "| " + " | ".join(measure(Path(folder) / "speed.base", chunks)) + " |", flush=True
            )


if __name__ == "__main__":
    main()
