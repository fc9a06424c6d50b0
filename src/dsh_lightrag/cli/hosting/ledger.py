"""What was ingested: for each document's name, the file it came from and its checksum.

One JSON line per fact, written before the document is sent: what a killed run has begun, the next
one knows. The base itself has the last word: a line whose document is not there counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_lightrag.cli.hosting.sources import is_gone
from dsh_lightrag.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A document that ingestion has sent; without a checksum, one that it was about to send.

    `named` as in `Source`: whether its path was given, and so may be a link's.
    """

    name: str
    path: str
    sha256: str
    named: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether no file of its path is a source any more."""
        return is_gone(Path(self.path), follow=self.named)


class Ledger:
    """The entries of one base."""

    def __init__(self, path: Path) -> None:
        """Read the ledger at a path, or begin one there."""
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._cut = ""  # what ends the last line of a run that was killed
        lines = self._read()
        if len(lines) > 2 * len(self._entries) + 100:
            self._rewrite()

    def get(self, name: str) -> Entry | None:
        """Return what is known of a document."""
        return self._entries.get(name)

    def gone(self, roots: Iterable[Path], there: Container[str]) -> list[Entry]:
        """Return the entries of files that lay in these folders and are gone, but those named."""
        return [
            entry
            for root in roots
            for entry in self._entries.values()
            if Path(entry.path).is_relative_to(root) and entry.name not in there and entry.is_gone
        ]

    def add(self, entry: Entry) -> None:
        """Remember a document, before it is sent."""
        self._entries[entry.name] = entry
        self._append(asdict(entry))

    def remove(self, name: str) -> None:
        """Forget a document that is gone."""
        if self._entries.pop(name, None):
            self._append({"name": name, "gone": True})

    def _read(self) -> list[str]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeError) as error:
            raise self._unusable(error) from None
        self._cut = "\n" if text and not text.endswith("\n") else ""
        lines = text.splitlines()
        for line in lines:
            self._take(line)
        return lines

    def _take(self, line: str) -> None:
        try:
            fact = json.loads(line)
            if fact.pop("gone", False):
                self._entries.pop(fact["name"], None)
            else:
                entry = Entry(**fact)
                self._entries[entry.name] = entry
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # the last line of a killed run may be cut; its document is taken in anew

    def _append(self, fact: dict[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # One write per fact, so that those of two processes do not mingle.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{self._cut}{json.dumps(fact)}\n")
            self._cut = ""
        except OSError as error:
            raise self._unusable(error) from None

    def _rewrite(self) -> None:
        new = self._path.with_suffix(f".{os.getpid()}.new")
        lines = (f"{json.dumps(asdict(entry))}\n" for entry in self._entries.values())
        try:
            new.write_text("".join(lines), encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ConfigurationError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return ConfigurationError(
            str(self._path), f"cannot be used: {reason}.", "Mend its rights, or move it away."
        )


def ledger_path(folder: Path, endpoint: str, workspace: str) -> Path:
    """Return where the ledger of a base lies; a data folder's own does not depend on its URL."""
    if not endpoint:
        return folder / "ingested" / f"{workspace or 'default'}.jsonl"
    digest = hashlib.sha256(f"{endpoint}\n{workspace}".encode()).hexdigest()[:32]
    return folder / "ingested" / f"{digest}.jsonl"
