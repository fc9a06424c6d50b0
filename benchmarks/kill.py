"""Kill -9 on a writer at random moments: nothing acknowledged is lost, nothing is half there.

python benchmarks/kill.py [--runs 50]

Each run starts a process that inserts, deletes and embeds, kills it up to 0.4 s after its first
acknowledgement, and opens the base as the next process would: every acknowledged document is there
whole and is found, every deleted one is gone, and the base agrees with itself. The first
difference ends the script with an error. A kill is no power cut.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engine"))
from killing import kill_and_check


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        checks = kill_and_check(Path(folder) / "killed.base", arguments.runs)
        for number, (inserted, deleted, stored) in enumerate(checks, start=1):
            print(
                f"kill {number}: {inserted} insertions and {deleted} deletions acknowledged so "
                f"far, {stored} documents found whole",
                flush=True,
            )
    print(f"{arguments.runs} kills, nothing lost, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
