"""Files and folders on disk, and the names that their documents get.

A document is called after its file. Of a folder's file the path below the folder counts, its parts
joined by two underscores: `guide/setup.md` is filed as `guide__setup.md`, so that files of one name
in different folders are different documents.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_lightrag.convert import ConversionError, is_supported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JOINT = "__"


@dataclass(frozen=True, slots=True)
class Source:
    """A file to ingest, by its absolute path, and the name of its document."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Sources:
    """What was found below some paths.

    Attributes:
        files: what is to be ingested, in the order of their names.
        left_out: how many files of a folder are of types that are not read.
        roots: the folders that were walked.
        missing: paths that were given and are not there, or are no files.
    """

    files: tuple[Source, ...]
    left_out: int
    roots: tuple[Path, ...]
    missing: tuple[Path, ...]


def sources_of(paths: Iterable[Path]) -> Sources:
    """Find the files of paths; hidden ones and links inside folders are left out."""
    files: dict[Path, Source] = {}
    left_out = 0
    roots, missing = [], []
    for path in (Path(os.path.abspath(given)) for given in paths):  # noqa: PTH100 - links stay
        if path.is_dir():
            roots.append(path)
            for file in _walked(path):
                if is_supported(file.name):
                    files.setdefault(file, Source(file, _name_below(path, file)))
                else:
                    left_out += 1
        elif path.is_file():
            files.setdefault(path, Source(path, path.name))
        else:
            missing.append(path)
    ordered = sorted(files.values(), key=lambda source: source.name)
    return Sources(tuple(ordered), left_out, tuple(roots), tuple(missing))


def _walked(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and _is_ordinary(path):
                yield path


def _is_ordinary(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # gone since the folder was listed
        return False


def _name_below(root: Path, file: Path) -> str:
    return JOINT.join(file.relative_to(root).parts)


def read_source(source: Source, most: int) -> tuple[bytes, str]:
    """Return a file's bytes and their checksum.

    Raises:
        ConversionError: it cannot be read, or is larger than `most` bytes.
    """
    try:
        with source.path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConversionError(
            f"The file cannot be read: {error.strerror}.", "Give this user access to it."
        ) from None
    if len(data) > most:
        raise ConversionError(f"The file is larger than {most} bytes.", "Split it.")
    return data, hashlib.sha256(data).hexdigest()
