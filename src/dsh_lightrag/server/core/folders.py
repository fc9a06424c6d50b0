"""The list of workspaces on files: a folder each, with a marker file and a lock file in it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from dsh_lightrag.engine.schema import sync
from dsh_lightrag.server import removing
from dsh_lightrag.server.backend import (
    WorkspaceBrokenError,
    WorkspaceLockedError,
    WorkspaceUnknownError,
)
from dsh_lightrag.server.core.models import Vectors
from dsh_lightrag.server.core.registry import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MARKER = "dsh-workspace.json"
_LOCK = "dsh-workspace.lock"


class Folders:
    """The registry over `folder/<workspace>/`; LightRAG keeps its files beside the marker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    async def start(self) -> None:
        """Make the folder, for our user alone, and remove what was half dropped."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        removing.sweep(self._folder)

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        return await asyncio.to_thread(self._names)

    def _names(self) -> list[str]:
        found = (path.parent.name for path in self._folder.glob(f"*/{MARKER}"))
        return sorted(name for name in found if not name.startswith(removing.DROPPED))

    async def find(self, name: str) -> Entry | None:
        """Return what the marker says, or None when there is none."""
        return await asyncio.to_thread(self._find, name)

    def _find(self, name: str) -> Entry | None:
        try:
            stored = json.loads((self._folder / name / MARKER).read_text(encoding="utf-8"))
            return Entry(
                Vectors(str(stored["embedding"]), int(stored["dimensions"])),
                tuple(stored["deleting"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise WorkspaceBrokenError(
                f"The file {MARKER} of the workspace {name!r} is damaged.",
                "Restore it from a backup; the workspace was left as it is.",
            ) from error

    async def add(self, name: str, entry: Entry) -> bool:
        """Write the marker; the link that gives it its name fails when there is one."""
        return await asyncio.to_thread(self._add, name, entry)

    def _add(self, name: str, entry: Entry) -> bool:
        folder = self._folder / name
        folder.mkdir(exist_ok=True, mode=0o700)
        draft = _written(folder, entry)
        try:
            os.link(draft, folder / MARKER)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        sync(folder)
        sync(self._folder)
        return True

    async def note_deletions(self, name: str, ids: Sequence[str]) -> None:
        """Write the marker anew."""
        await asyncio.to_thread(self._note_deletions, name, ids)

    def _note_deletions(self, name: str, ids: Sequence[str]) -> None:
        entry = self._find(name)
        if entry is None:
            raise WorkspaceUnknownError(f"There is no workspace {name!r}.")
        folder = self._folder / name
        _written(folder, replace(entry, deleting=tuple(ids))).replace(folder / MARKER)
        sync(folder)

    async def hold(self, name: str) -> None:
        """Lock the workspace's lock file; the system lets go of it when the process ends."""
        if name not in self._held:
            await asyncio.to_thread(self._hold, name)

    def _hold(self, name: str) -> None:
        path = self._folder / name / _LOCK
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking, another process may have dropped the workspace.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.stat()):
                    self._held[name] = file
                    return
        except BlockingIOError:
            pass
        except BaseException:  # whatever it was, nobody else would close the file
            os.close(file)
            raise
        os.close(file)
        raise WorkspaceLockedError(
            f"Another process has the workspace {name!r} open.",
            "One process serves a workspace: stop the other one.",
        )

    async def release(self, name: str) -> None:
        """Close the lock file."""
        file = self._held.pop(name, None)
        if file is not None:
            os.close(file)

    async def remove(self, name: str) -> bool:
        """Remove the folder; what may be left of it bears no name."""
        return await asyncio.to_thread(self._remove, name)

    def _remove(self, name: str) -> bool:
        folder = self._folder / name
        return (folder / MARKER).exists() and removing.drop_folder(folder)

    async def close(self) -> None:
        """Close every lock file."""
        for name in list(self._held):
            await self.release(name)


def _written(folder: Path, entry: Entry) -> Path:
    """Write an entry into a file of its own, safe on the disk."""
    path = folder / f"{MARKER}.{os.urandom(4).hex()}"
    with path.open("w", encoding="utf-8") as file:
        stored = {
            "embedding": entry.vectors.model,
            "dimensions": entry.vectors.dimensions,
            "deleting": entry.deleting,
        }
        json.dump(stored, file)
        file.flush()
        os.fsync(file.fileno())
    return path
