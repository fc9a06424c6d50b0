"""The input folders: files that were uploaded and wait, and files that a scan will take.

`inputs/<workspace>/` is scanned. Below it, `.uploads/<track id>/` holds what was accepted and is
not filed yet: it is on disk before its client is told so, and is taken up after a restart. A file
is whole when that folder gets its name; before, the folder is called `.arriving-<track id>`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_lightrag.convert import SUPPORTED, is_supported
from dsh_lightrag.engine.schema import sync
from dsh_lightrag.logs import get_logger
from dsh_lightrag.server import removing
from dsh_lightrag.server.file_names import UNSAFE
from dsh_lightrag.server.ordinary import is_ordinary
from dsh_lightrag.server.refusal import RefusalError
from dsh_lightrag.server.workspaces import is_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from typing import BinaryIO

UPLOADS = ".uploads"
_ARRIVING = ".arriving-"
_GOING = ".going-"
_MIB = 1024 * 1024
# Seen through other systems' eyes: a separator, a drive, a stream.
_CLIMBING = re.compile(r"[/\\:]")
_LONGEST = 255  # bytes of a name, on every file system we know
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Waiting:
    """An accepted file that is not filed yet."""

    workspace: str
    track_id: str
    path: Path

    @property
    def name(self) -> str:
        """The name that it will be filed under."""
        return self.path.name


def checked_file_name(name: str) -> str:
    """Return an uploaded file's name, which is never changed to make it fit.

    Raises:
        RefusalError: it is none, climbs, or is of a type that is not read.
    """
    if not name.strip():
        raise RefusalError(400, "Filename cannot be empty")
    if name != name.strip() or UNSAFE.search(name) or len(name.encode()) > _LONGEST:
        raise RefusalError(400, "Invalid filename")
    if _CLIMBING.search(name) or name in (".", ".."):
        raise RefusalError(400, "Unsafe filename detected")
    if not is_supported(name):
        raise RefusalError(400, f"Unsupported file type. Supported types: {SUPPORTED}")
    return name


def _already_there(name: str) -> RefusalError:
    return RefusalError(
        409,
        "Input directory already contains a file with the same canonical basename "
        f"('{name}'). Remove or rename it before re-uploading.",
    )


class Inputs:
    """The input folders below one folder.

    Args:
        root: holds a folder per workspace; made when it is first needed.
        exists: tells whether there is a workspace of a name.
        max_file: most bytes of an uploaded file.
    """

    def __init__(
        self, root: Path, exists: Callable[[str], Awaitable[bool]], *, max_file: int
    ) -> None:
        self._root = root
        self._exists = exists
        self._max_file = max_file
        self._arriving: set[tuple[str, str]] = set()

    def folder(self, workspace: str) -> Path:
        """Return the folder that a scan of the workspace reads."""
        return self._root / workspace

    def check_size(self, size: int) -> None:
        """Raise `RefusalError` for a file that is too large."""
        if size > self._max_file:
            raise RefusalError(
                413,
                f"File too large. Maximum size: {self._max_file / _MIB:.1f}MB, "
                f"uploaded: {size / _MIB:.1f}MB",
            )

    async def keep(self, workspace: str, track_id: str, name: str, data: BinaryIO) -> Waiting:
        """Put an upload on disk, durably; it waits there until it is filed.

        Raises:
            RefusalError: a file of this name lies in the folder, waits or is just arriving, or
                there is no room for it.
        """
        path = self.folder(workspace) / UPLOADS / track_id / name
        if (workspace, name) in self._arriving:
            raise _already_there(name)
        self._arriving.add((workspace, name))
        try:
            if await asyncio.to_thread(self._holds, workspace, name):
                raise _already_there(name)
            await asyncio.to_thread(self._write, path, data)
        finally:
            self._arriving.discard((workspace, name))
        return Waiting(workspace, track_id, path)

    def _holds(self, workspace: str, name: str) -> bool:
        waiting = (one.name for one in self._waiting(workspace))
        return os.path.lexists(self.folder(workspace) / name) or name in waiting

    def _write(self, path: Path, data: BinaryIO) -> None:
        """Write a file whole, or leave nothing of it; durable with every folder above it."""
        arriving = path.parent.with_name(f"{_ARRIVING}{path.parent.name}")
        try:
            arriving.mkdir(parents=True)
            _write_new(arriving / path.name, data)
            sync(arriving)
            arriving.rename(path.parent)
            for folder in path.parents[1:4]:  # up to the root of all inputs
                sync(folder)
        except OSError as error:
            for left in (arriving, path.parent):  # refused, it must not be filed later
                removing.remove_if_possible(left)
            get_logger().warning("upload_not_kept", error=type(error).__name__)
            raise RefusalError(507, f"The file cannot be kept: {error.strerror}.") from None

    async def release(self, waiting: Waiting) -> None:
        """Let go of an upload that is filed."""
        await asyncio.to_thread(removing.remove_if_possible, waiting.path.parent)

    async def waiting(self, workspace: str) -> list[Waiting]:
        """Return the uploads that were accepted and are not filed."""
        return await asyncio.to_thread(lambda: list(self._waiting(workspace)))

    def _waiting(self, workspace: str) -> Iterator[Waiting]:
        for path in sorted((self.folder(workspace) / UPLOADS).glob("[!.]*/*")):
            yield Waiting(workspace, path.parent.name, path)

    async def sweep(self, workspace: str) -> None:
        """Remove what a server that was killed had not finished writing, or removing."""
        for folder in (self._root, self.folder(workspace)):
            await asyncio.to_thread(removing.sweep, folder)
        for left in (self.folder(workspace) / UPLOADS).glob(f"{_ARRIVING}*"):
            await asyncio.to_thread(removing.remove_if_possible, left)

    async def files(self, workspace: str) -> list[Path]:
        """Return the files that a scan takes: ordinary ones of types that are read, by name."""
        return await asyncio.to_thread(self._files, workspace)

    def _files(self, workspace: str) -> list[Path]:
        folder = self.folder(workspace)
        folder.mkdir(parents=True, exist_ok=True)
        return sorted(
            path for path in folder.iterdir() if is_supported(path.name) and is_ordinary(path)
        )

    async def discard(self, workspace: str, name: str) -> int:
        """Remove a file from the folder; return how many there were. A path is no file of it."""
        if Path(name).name != name:
            return 0
        return await asyncio.to_thread(_unlink, self.folder(workspace) / name)

    async def empty(self, workspace: str) -> int:
        """Remove the files of the folder and what waits; return how many lay in the folder."""
        return await asyncio.to_thread(self._empty, workspace)

    def _empty(self, workspace: str) -> int:
        folder = self.folder(workspace)
        try:
            removing.drop_folder(folder / UPLOADS)
        except OSError as error:  # the documents are gone, and that is what was asked for first
            get_logger().warning("uploads_not_removed", error=type(error).__name__)
        entries = list(folder.iterdir()) if folder.is_dir() else []
        return sum(_unlink(path) for path in entries if is_ordinary(path))

    @contextlib.asynccontextmanager
    async def going(self, workspace: str) -> AsyncIterator[None]:
        """Remove the folder of a workspace that is removed within the block, and else keep it.

        A mark stands beside the folder meanwhile: where this is cut short, `settle` decides by it.

        Raises:
            RefusalError: something of the folder is still there, or the mark cannot be made.
        """
        with _refused():
            await asyncio.to_thread(_mark, self._mark(workspace))
        try:
            yield
        except Exception:
            # Its name may be gone although not all of its files are.
            await self.settle(workspace)
            raise
        with _refused():
            await asyncio.to_thread(removing.drop_folder, self.folder(workspace))
            self._mark(workspace).unlink(missing_ok=True)

    async def settle(self, workspace: str) -> None:
        """Finish the removal of a workspace that was cut short: its files go if it has gone."""
        mark = self._mark(workspace)
        if not mark.exists():
            return
        try:
            if not await self._exists(workspace):
                await asyncio.to_thread(removing.drop_folder, self.folder(workspace))
            mark.unlink(missing_ok=True)
        except OSError as error:  # it bears no name any more, or is tried again with the mark
            get_logger().warning("inputs_not_removed", error=type(error).__name__)

    async def settle_all(self) -> None:
        """Settle every workspace, as a process that was killed has left them."""
        for mark in self._root.glob(f"{_GOING}*"):
            if is_name(workspace := mark.name.removeprefix(_GOING)):
                await self.settle(workspace)

    def _mark(self, workspace: str) -> Path:
        return self._root / f"{_GOING}{workspace}"


def _unlink(path: Path) -> int:
    """Remove an ordinary file; return how many there were that could be removed."""
    if not is_ordinary(path):
        return 0
    try:
        path.unlink()
    except OSError as error:  # gone meanwhile, or the folder may not be written
        get_logger().warning("input_not_removed", error=type(error).__name__)
        return 0
    return 1


def _mark(path: Path) -> None:
    """Make an empty file, durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    sync(path.parent)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Let what the disk refuses leave as a refusal of the request."""
    try:
        yield
    except OSError as error:
        raise RefusalError(
            500, f"The workspace's files cannot be removed: {error.strerror}."
        ) from error


def _write_new(path: Path, data: BinaryIO) -> None:
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
        shutil.copyfileobj(data, file)
        file.flush()
        os.fsync(file.fileno())
