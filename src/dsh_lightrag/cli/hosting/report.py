"""How ingestion is told: bars on a terminal, a line per file elsewhere; both on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dsh_lightrag.cli.hosting.ingesting import Outcome
from dsh_lightrag.cli.terminal import complain, console_for
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.cli.hosting.ingesting import Report, Summary

_NAME_WIDTH = 30
# Nobody reads the first one by one; the failures come together, at the end.
_SILENT = {Outcome.UNCHANGED, Outcome.FAILED}


class Lines:
    """A line per file that something happened to."""

    def begin(self, files: int) -> None:
        """Say nothing: the lines speak."""

    def one(self, name: str, outcome: Outcome) -> None:
        """Print what became of a file."""
        if outcome not in _SILENT:
            complain(f"{outcome.value}: {name}")

    def indexing(self, left: int, documents: int) -> None:
        """Say nothing: a line per look would be many."""


class Bars:
    """Two bars: files that were looked at, documents that are indexed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._files = progress.add_task("files", total=None)
        self._indexed = progress.add_task("indexed", total=None, visible=False)

    def begin(self, files: int) -> None:
        """Begin the first bar."""
        self._progress.reset(self._files, total=files)

    def one(self, name: str, outcome: Outcome) -> None:
        """Move the first bar on."""
        moved = outcome is not Outcome.REMOVED
        self._progress.update(self._files, advance=int(moved), description=name[:_NAME_WIDTH])

    def indexing(self, left: int, documents: int) -> None:
        """Move the second bar."""
        done = documents - left
        self._progress.update(self._indexed, total=documents, completed=done, visible=True)


@contextmanager
def reporting() -> Iterator[Report]:
    """Yield a report for the stderr that there is."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console_for(stderr=True),
        transient=True,
        redirect_stdout=False,
    ) as progress:
        yield Bars(progress)


def told(summary: Summary) -> str:
    """Return one line of what became of all files."""
    counts = [f"{summary.counts[one]} {one.value}" for one in Outcome if summary.counts[one]]
    return f"{', '.join(counts) or 'nothing to do'}."


def complain_of(summary: Summary) -> None:
    """Print the failures to stderr, each with its reason."""
    for name, reason in summary.failures.items():
        complain(f"failed: {name}: {clean_line(reason)}")
