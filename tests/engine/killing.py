"""A writer killed at a random moment, and what the next process must find: everything it said.

`test_kill.py` does this a few times, `benchmarks/kill.py` as often as it is told.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from hash_embedder import HashEmbedder

from dsh_lightrag.engine import Document, Engine, Mode

HERE = Path(__file__).parent
WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from hash_embedder import HashEmbedder
from dsh_lightrag.engine import Engine
from killing import document
engine = Engine.open(Path(sys.argv[1]), embedder=HashEmbedder())
for number in range(int(sys.argv[3]), 100_000):
    engine.insert(document(number))
    print("+", number, flush=True)
    if number % 3 == 2:
        engine.delete(f"doc-{number - 1}")
        print("-", number - 1, flush=True)
    if number % 5 == 4:
        engine.step()
"""


def document(number):
    text = f"# Part one\nMarker{number}x met Nobody.\n" * 3 + f"Marker{number}x ended. " * 60
    return Document(text, title=f"Title {number}", id=f"doc-{number}")


def kill_and_check(path, runs):
    """Kill so many writers of one base, one after another; yield what each had said so far.

    Yields (documents acknowledged, deletions acknowledged, documents found) after each check.
    """
    there, gone, start = set(), set(), 0
    for _ in range(runs):
        inserted, deleted, last = killed_writer(path, start)
        there |= inserted
        gone |= deleted
        # Its last deletion may have happened without being acknowledged.
        maybe = {last - 1} if last % 3 == 2 else set()
        stored = check(path, there - gone - maybe, gone)
        there -= maybe
        start = max(stored | gone, default=-1) + 1
        yield len(there), len(gone), len(stored)


def killed_writer(path, start):
    """Run a writer, kill it some time after its first acknowledgement; return what it said."""
    writer = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", WRITER, str(path), str(HERE), str(start)],
        stdout=subprocess.PIPE,
        text=True,
    )
    said = [writer.stdout.readline()]
    time.sleep(random.uniform(0, 0.4))  # noqa: S311 - any moment will do
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    # The last line may have been cut; an acknowledgement counts once it was read whole.
    said += rest[: rest.rfind("\n") + 1].splitlines()
    marks = [line.split() for line in said]
    assert marks[0][0] == "+"
    inserted = {int(number) for mark, number in marks if mark == "+"}
    return inserted, {int(number) for mark, number in marks if mark == "-"}, max(inserted)


def check(path, there, gone):
    """Open the base as the next process would; return the numbers of the documents it has."""
    with Engine.open(path, embedder=HashEmbedder()) as engine:
        stored = {int(state.id[4:]) for state in engine.documents()}
        assert there <= stored
        assert not gone & stored
        engine.catch_up()
        for number in sorted(stored):
            text = document(number).text
            assert engine.text(f"doc-{number}") == text
            answer = engine.query(f"marker{number}x", Mode.NAIVE, 50)
            found = [hit.chunk for hit in answer.hits if "keywords" in hit.placings]
            assert {chunk.document_id for chunk in found} == {f"doc-{number}"}
            assert max(chunk.end for chunk in found) == len(text.rstrip())
            assert engine.query(f"Title {number}", Mode.LOCAL).hits
        for number in sorted(gone):
            answer = engine.query(f"marker{number}x", Mode.NAIVE, 50)
            assert not [hit for hit in answer.hits if "keywords" in hit.placings]
        assert not engine.verify()
        return stored
