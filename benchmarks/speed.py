"""How fast the engine is at several sizes, beside the file stores that it replaces.

python benchmarks/speed.py [--chunks 1000 10000 100000] [--peer-up-to 10000] [--keep DIR]

Texts are synthetic (words by Zipf's law, three names a chunk), and so are the vectors: a random row
of 384 numbers for each text, because embedding a hundred thousand chunks would take hours. The
time to embed a question is in no figure. The same texts, rows and names go into LightRAG's file
stores (see `file_stores.py`), up to the size named; the same questions go to both by turns. Every
size runs in a process of its own; memory is what it grew by over its start. `--keep` keeps bases
between runs, for building the largest takes minutes; then the rate of ingestion is left out. A
question's processor time stands beside its wall time, for a machine that others use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine import Document, Engine, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from file_stores import FileStores
    from numpy.typing import NDArray

SECTIONS = 20  # chunks in one document
WORDS = 70  # in one chunk, so that each section is one chunk
VOCABULARY = 50_000
STOP_WORDS = 100  # the commonest words, which a question's terms leave out
QUESTIONS = 40
INSERTS = 20
PEER_INSERTS = 3  # each of them writes every file anew
MODES = (Mode.NAIVE, Mode.LOCAL, Mode.GLOBAL, Mode.HYBRID, Mode.MIX)
DIMENSION = 384


def rows_of(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return a row for each text, the same whoever asks."""
    made = [np.random.default_rng(zlib.crc32(text.encode())) for text in texts]
    rows = np.array([one.standard_normal(DIMENSION, dtype=np.float32) for one in made])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


class RandomRows:
    """The embedder; questions' rows are made before the clock starts."""

    identity, dimension = "random-384", DIMENSION

    def __init__(self) -> None:
        self.ready: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text."""
        return self.ready[texts[0]] if query else rows_of(texts)


class Writer:
    """Writes texts of made-up words, some of them names."""

    def __init__(self, chunks: int) -> None:
        self._random = np.random.default_rng(5)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
        made = {"".join(three) for three in self._random.choice(syllables, (3 * VOCABULARY, 3))}
        self._words = np.array(sorted(made)[:VOCABULARY])
        self._random.shuffle(self._words)
        rank = np.arange(1, len(self._words) + 1)
        self._likely = (1 / rank) / (1 / rank).sum()
        self._names = max(30, chunks // 3)

    def reseed(self, seed: int) -> None:
        """Go on alike in every run, whatever was written before."""
        self._random = np.random.default_rng(seed)

    def name(self) -> str:
        """Return one of the names; some are far more frequent than others."""
        number = int(self._names * self._random.random() ** 3)
        first, last = self._words[-1 - number % 200], self._words[-300 - number // 200]
        return f"{first.title()} {last.title()}"

    def passage(self) -> tuple[str, list[str]]:
        """Return one chunk's text, and the names in it."""
        text = list(self._random.choice(self._words, WORDS, p=self._likely))
        names = [self.name() for _ in range(3)]
        for place, name in zip((5, 30, 55), names, strict=True):
            text[place] = f"with {name}"
        return " ".join(text) + ".", names

    def documents(self, chunks: int) -> Iterator[tuple[Document, list[tuple[str, list[str]]]]]:
        """Yield documents of so many sections, each with its passages."""
        self.reseed(7)
        for number in range(chunks // SECTIONS):
            passages = [self.passage() for _ in range(SECTIONS)]
            text = "\n".join(f"# part {part}\n{one}\n" for part, (one, _) in enumerate(passages))
            title = f"{self.name()} {number}"
            yield Document(text, title=title, id=f"d{number}"), passages

    def question(self) -> str:
        """Return a question with two names and four words, none of them a stop word."""
        likely = self._likely[STOP_WORDS:] / self._likely[STOP_WORDS:].sum()
        words = " ".join(self._random.choice(self._words[STOP_WORDS:], 4, p=likely))
        return f"{words} {self.name()} {self.name()}?"


class Clock:
    """Wall and processor time of several runs, in milliseconds."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def run(self, action: Callable[[], object]) -> None:
        """Time one action."""
        wall, processor = time.perf_counter(), time.process_time()
        action()
        self.processor.append(1000 * (time.process_time() - processor))
        self.wall.append(1000 * (time.perf_counter() - wall))

    def row(self, name: str, chunks: int, other: Clock | None = None) -> str:
        """Return a row of the table; with another clock, how many times longer that one took."""
        p50, p95 = np.percentile(self.wall, [50, 95])
        cells = [f"{p50:.1f}", f"{p95:.1f}", f"{np.median(self.processor):.1f}"]
        if other is not None:
            cells += [f"{np.median(other.wall):.1f}", f"{np.median(other.wall) / p50:.1f}"]
        return f"| {chunks} | {name} | {' | '.join(cells)} {'| | ' * (other is None)}|"


def once(action: Callable[[], object]) -> Clock:
    """Return a clock that ran once."""
    clock = Clock()
    clock.run(action)
    return clock


def resident() -> float:
    """Return the process's memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def build(path: Path, chunks: int) -> None:
    """Make the base, by inserting document after document, each durable."""
    with Engine.open(path, embedder=RandomRows()) as engine:
        begun = time.perf_counter()
        for document, _ in Writer(chunks).documents(chunks):
            engine.insert(document)
        inserted = time.perf_counter()
        engine.catch_up()
        done = time.perf_counter()
    print(
        f"{chunks} chunks: {chunks / (inserted - begun):.0f} a second inserted durably, "
        f"{chunks / (done - begun):.0f} with vectors and indexes",
        flush=True,
    )


def build_peer(folder: Path, chunks: int) -> None:
    begun = time.perf_counter()
    stores = opened_stores(folder, chunks)
    stores.insert(
        [
            (f"c{number}-{place}", text, names)
            for number, (_, passages) in enumerate(Writer(chunks).documents(chunks))
            for place, (text, names) in enumerate(passages)
        ]
    )
    stores.close()
    print(
        f"{chunks} chunks in the file stores, written once at the end: "
        f"{chunks / (time.perf_counter() - begun):.0f} a second",
        flush=True,
    )


def measure(folder: Path, chunks: int, *, peer: bool) -> None:
    """Print the rows of one size."""
    embedder, writer = RandomRows(), Writer(chunks)
    writer.reseed(11)
    questions = [writer.question() for _ in range(QUESTIONS + 2 + INSERTS)]
    embedder.ready = {question: rows_of([question]) for question in questions}
    rows = []

    start = resident()
    held: list[Engine] = []
    path = folder / f"{chunks}.base"
    rows.append(once(lambda: held.append(Engine.open(path, embedder=embedder))).row("open", chunks))
    with held[0] as engine:
        rows.append(once(lambda: engine.query(questions[-1])).row("first question, mix", chunks))
        for question in questions[:QUESTIONS]:
            engine.query(question)
        memory = [resident() - start]

        start = resident()
        stores = None
        if peer:
            import file_stores  # noqa: F401, PLC0415 - its import is not part of the opening

            made: list[FileStores] = []
            opening = once(lambda: made.append(opened_stores(folder, chunks)))
            stores = made[0]
            rows.append(opening.row("open the file stores", chunks))
            for question in questions[:5]:
                stores.mix(question, embedder.ready[question][0])
            memory.append(resident() - start)

        rows += ask(engine, stores, embedder.ready, questions[:QUESTIONS], chunks)
        rows += write(engine, stores, writer, questions[QUESTIONS:], chunks)
    print("\n".join(rows))
    sizes = {file.suffix: file.stat().st_size / 2**20 for file in folder.glob(f"{chunks}.base*")}
    told = (
        f"{chunks} chunks: {sizes['.base']:.0f} MiB, index beside it {sizes.get('.index', 0):.0f}"
    )
    print(f"{told} MiB, memory {memory[0]:.0f} MiB", end="")
    if stores:
        size = sum(file.stat().st_size for file in (folder / f"{chunks}.stores").iterdir()) / 2**20
        print(f"; file stores {size:.0f} MiB, memory {memory[1]:.0f} MiB", end="")
    print(flush=True)


def opened_stores(folder: Path, chunks: int) -> FileStores:
    """Open the peer's stores."""
    from file_stores import FileStores  # noqa: PLC0415 - LightRAG only where it is asked for

    return FileStores(folder / f"{chunks}.stores", DIMENSION, rows_of)


def ask(
    engine: Engine,
    stores: FileStores | None,
    vectors: dict[str, NDArray[np.float32]],
    questions: list[str],
    chunks: int,
) -> list[str]:
    """Ask both sides by turns; return a row per mode."""
    clocks = {mode: Clock() for mode in MODES}
    peers: dict[Mode, Clock] = {Mode.NAIVE: Clock(), Mode.MIX: Clock()} if stores else {}
    for question in questions:
        for mode, clock in clocks.items():
            clock.run(lambda: engine.query(question, mode))  # noqa: B023 - used at once
            if stores and mode in peers:
                asked = stores.naive if mode is Mode.NAIVE else stores.mix
                peers[mode].run(lambda: asked(question, vectors[question][0]))  # noqa: B023 - as above
    return [clock.row(mode, chunks, peers.get(mode)) for mode, clock in clocks.items()]


def write(
    engine: Engine, stores: FileStores | None, writer: Writer, questions: list[str], chunks: int
) -> list[str]:
    """Insert and delete documents of one chunk, asking after each insertion; return the rows."""
    inserts, after, deletes, peer_inserts = Clock(), Clock(), Clock(), Clock()
    for number in range(INSERTS):
        text, names = writer.passage()
        document = Document(text, title=f"{writer.name()} {chunks + number}", id=f"one{number}")
        inserts.run(lambda: engine.insert(document))  # noqa: B023 - used at once
        after.run(lambda: engine.query(questions[number]))  # noqa: B023 - as above
        if stores and number < PEER_INSERTS:
            peer_inserts.run(lambda: stores.insert([(f"one{number}", text, names)]))  # noqa: B023 - as above
    for number in range(INSERTS):
        deletes.run(lambda: engine.delete(f"one{number}"))  # noqa: B023 - used at once
    return [
        inserts.row("insert one, durably", chunks, peer_inserts if stores else None),
        after.row("mix right after it", chunks),
        deletes.row("delete one", chunks),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--peer-up-to", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="folder that keeps the bases between runs")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        (chunks,) = arguments.chunks
        measure(arguments.keep, chunks, peer=chunks <= arguments.peer_up_to)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the run")
        for chunks in arguments.chunks:
            if not (folder / f"{chunks}.base").exists():
                build(folder / f"{chunks}.base", chunks)
            if chunks <= arguments.peer_up_to and not (folder / f"{chunks}.stores").exists():
                build_peer(folder, chunks)
        heads = ["chunks", "what", "p50 ms", "p95 ms", "processor p50 ms", "file stores p50 ms"]
        print("\n| " + " | ".join([*heads, "file stores / ours"]) + " |")
        print("| --- " * (len(heads) + 1) + "|", flush=True)
        for chunks in arguments.chunks:
            flags = ["--measure", "--chunks", str(chunks), "--keep", folder]
            flags += ["--peer-up-to", str(arguments.peer_up_to)]
            subprocess.run([sys.executable, __file__, *flags], check=True)  # noqa: S603 - this script
        print(f"\nload average {os.getloadavg()[0]:.1f} after it")


if __name__ == "__main__":
    main()
