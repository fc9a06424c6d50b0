"""Files into a base: what is new goes in, what changed is replaced, what is unchanged is skipped.

Everything may be broken off anywhere and run again: the ledger knows of a document before it is
sent. A changed one is first deleted and then sent, since the API never updates.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from dsh_lightrag.cli.hosting.base import POLL_S
from dsh_lightrag.cli.hosting.ledger import Entry
from dsh_lightrag.cli.hosting.sources import read_source
from dsh_lightrag.convert import DEFAULT_LIMITS, ConversionError, text_of
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.text import clean, clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dsh_lightrag.cli.hosting.base import Base
    from dsh_lightrag.cli.hosting.ledger import Ledger
    from dsh_lightrag.cli.hosting.sources import Source, Sources
    from dsh_lightrag.wire import Document

AT_ONCE = 4
# So long a server may be idle while documents wait to be indexed.
STANDS_STILL_S = 30.0
_LONGEST_POLL_S = 1.0
# LightRAG's own words for a text that is stored under another name.
_SAME_TEXT = "Identical content already exists"
# Without a server every further file would fail for the same reason.
_ENDS_ALL = {Code.UNREACHABLE, Code.UNAUTHORIZED, Code.NOT_FOUND, Code.BAD_RESPONSE}


class Outcome(Enum):
    """What became of a file."""

    ADDED = "added"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    SAME_TEXT = "same text as another file"
    FAILED = "failed"


class Report(Protocol):
    """Who is told of the progress."""

    def begin(self, files: int) -> None:
        """So many files are looked at."""

    def one(self, name: str, outcome: Outcome) -> None:
        """This became of one file."""

    def indexing(self, left: int, documents: int) -> None:
        """So many documents of the base are not indexed yet."""


@dataclass(slots=True)
class Summary:
    """How a run ended; the failures by name, each with its reason."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What tells without reading it that a file is as it was."""

    size: int
    changed_ns: int


class Ingestion:
    """Brings a base to the state of files; kept and run again by who follows their changes.

    Args:
        base: where the documents go.
        ledger: what earlier runs sent there.
    """

    def __init__(self, base: Base, ledger: Ledger) -> None:
        self._base = base
        self._ledger = ledger
        self._stamps: dict[Path, _Stamp] = {}

    async def run(
        self, sources: Sources, report: Report, *, follow_deletions: bool = False
    ) -> Summary:
        """Bring the base to the state of the sources, and wait until it has indexed them.

        Args:
            sources: the files that the base is to hold.
            report: is told what happens.
            follow_deletions: delete the documents of files that the sources had and have no more.

        Raises:
            ExceptionGroup: of `LightRagError`: the server cannot be asked; what was sent stays.
        """
        run = _Run(self._base, self._ledger, self._stamps, report)
        await run.to_the_end(sources, follow_deletions=follow_deletions)
        return run.summary


class _Run:
    """One look at the files."""

    def __init__(
        self, base: Base, ledger: Ledger, stamps: dict[Path, _Stamp], report: Report
    ) -> None:
        self._base = base
        self._ledger = ledger
        self._stamps = stamps
        self._report = report
        self.summary = Summary()

    async def to_the_end(self, sources: Sources, *, follow_deletions: bool) -> None:
        self._report.begin(len(sources.files))
        stored = await self._base.documents()
        for path in sources.missing:
            self._tell(path.name, Outcome.FAILED, f"There is no file or folder {path}.")
        for path in sources.closed:
            self._tell(path.name, Outcome.FAILED, f"The folder {path} cannot be read.")
        if follow_deletions:
            await self._remove_gone(sources, stored)
        turns = asyncio.Semaphore(AT_ONCE)
        claimed: dict[str, Path] = {}
        async with asyncio.TaskGroup() as group:
            for source in sources.files:
                other = claimed.setdefault(source.name, source.path)
                if other != source.path:
                    self._tell(source.name, Outcome.FAILED, f"{other} has the same name.")
                else:
                    await turns.acquire()
                    group.create_task(self._one(source, stored.get(source.name, []), turns))
        await self._indexed({source.name for source in sources.files})

    def _tell(self, name: str, outcome: Outcome, reason: str = "") -> None:
        self.summary.counts[outcome] += 1
        if outcome is Outcome.FAILED:
            self.summary.failures[name] = reason
        self._report.one(clean_line(name), outcome)

    async def _one(
        self, source: Source, rows: Sequence[Document], turns: asyncio.Semaphore
    ) -> None:
        try:
            outcome = await self._file(source, rows)
        except ConversionError as error:
            self._tell(source.name, Outcome.FAILED, str(error))
        except LightRagError as error:
            if error.code in _ENDS_ALL:
                raise
            self._tell(source.name, Outcome.FAILED, f"{error.message} {error.hint}")
        else:
            self._tell(source.name, outcome)
        finally:
            turns.release()

    async def _file(self, source: Source, rows: Sequence[Document]) -> Outcome:
        """File one source unless the base has it already."""
        known = self._ledger.get(source.name)
        _refuse_another_source(source, known, stored=bool(rows))
        stamp = _stamp_of(source.path)
        if rows and stamp is not None and self._stamps.get(source.path) == stamp:
            return Outcome.UNCHANGED
        data, checksum = await asyncio.to_thread(read_source, source, DEFAULT_LIMITS.file_bytes)
        unchanged = known is not None and known.sha256 == checksum
        if not (unchanged and _is_well(rows)):
            text = await asyncio.to_thread(text_of, source.path.name, data)
            # Without a checksum until it is there: broken off in between, it is sent again.
            self._ledger.add(Entry(source.name, str(source.path), "", source.named))
            if rows:
                await self._base.replace(source.name, clean(text), [row.id for row in rows])
            else:
                await self._base.insert(source.name, clean(text))
            self._ledger.add(Entry(source.name, str(source.path), checksum, source.named))
        if stamp is not None:
            self._stamps[source.path] = stamp
        if unchanged and _is_well(rows):
            return Outcome.UNCHANGED
        return Outcome.REPLACED if rows else Outcome.ADDED

    async def _remove_gone(
        self, sources: Sources, stored: Mapping[str, Sequence[Document]]
    ) -> None:
        """Delete the documents of files that lay in the walked folders and are gone."""
        gone = self._ledger.gone(sources.roots, {source.name for source in sources.files})
        ids = [row.id for entry in gone for row in stored.get(entry.name, ())]
        if ids:
            await self._base.delete(ids)
        for entry in gone:
            self._ledger.remove(entry.name)
            self._tell(entry.name, Outcome.REMOVED)

    async def _indexed(self, names: set[str]) -> None:
        """Wait until nothing of the base is left to index; tell what failed at it.

        Raises:
            LightRagError: `timeout`: the server does nothing about what is left.
        """
        wait, idle_s = POLL_S, 0.0
        while True:
            left, documents = await self._base.unfinished()
            self._report.indexing(left, documents)
            if not left:
                break
            await asyncio.sleep(wait)
            idle_s = 0.0 if await self._base.is_busy() else idle_s + wait
            if idle_s > STANDS_STILL_S:
                raise LightRagError(
                    Code.TIMEOUT,
                    f"{left} documents are not indexed, and the server does nothing about it.",
                    hint="What was sent is stored: see `dsh-lightrag doctor`.",
                )
            wait = min(wait * 1.5, _LONGEST_POLL_S)
        for name, rows in (await self._base.documents()).items():
            if name in names and not _is_well(rows) and name not in self.summary.failures:
                self._tell(name, Outcome.FAILED, rows[0].error_msg or "The server tells no reason.")
            elif name in names and all(_is_same_text(row) for row in rows):
                self._tell(name, Outcome.SAME_TEXT)


def _refuse_another_source(source: Source, known: Entry | None, *, stored: bool) -> None:
    """Refuse to put a file in the place of another's document.

    Raises:
        ConversionError: another file that still exists, or somebody else, filed that name.
    """
    if not stored:
        return
    if known is None:
        raise ConversionError(
            "Another document has this name, and it did not come from a file.",
            "Delete that document, or rename the file.",
        )
    if known.path != str(source.path) and not known.is_gone:
        raise ConversionError(
            f"The document of this name came from {known.path}.",
            "Ingest a folder that holds both files, or rename one of them.",
        )


def _stamp_of(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:  # reading it will tell why
        return None
    return _Stamp(found.st_size, found.st_mtime_ns)


def _is_well(rows: Sequence[Document]) -> bool:
    """Tell whether the base has a text: stored, or known under another name."""
    return any(row.status.lower() != "failed" or _is_same_text(row) for row in rows)


def _is_same_text(row: Document) -> bool:
    return row.status.lower() == "failed" and (row.error_msg or "").startswith(_SAME_TEXT)
