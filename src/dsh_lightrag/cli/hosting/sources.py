"""Files and folders on disk, and the names that their documents get.

A document is called after its file. Of a folder's file the path below the folder counts, its parts
joined by two underscores: `guide/setup.md` is filed as `guide__setup.md`, so that files of one name
in different folders are different documents. Names are those that the server's list will show:
what no text may hold, such as half a character, is replaced, and a parser's hint is left out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_lightrag.convert import ConversionError, is_supported
from dsh_lightrag.server.file_names import filed_as
from dsh_lightrag.server.ordinary import is_ordinary, read_ordinary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JOINT = "__"
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True)
class Source:
    """A file to ingest.

    Attributes:
        path: where it is, absolute.
        name: what its document is called.
        named: whether the path itself was given; then it may be a link.
    """

    path: Path
    name: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """What was found below some paths.

    Attributes:
        files: what is to be ingested, in the order of their names.
        left_out: how many files of a folder are of types that are not read.
        roots: the folders that were walked.
        missing: paths that were given and are not there, or are no files.
        closed: folders below the roots that cannot be read.
    """

    files: tuple[Source, ...]
    left_out: int
    roots: tuple[Path, ...]
    missing: tuple[Path, ...]
    closed: tuple[Path, ...] = ()


def sources_of(paths: Iterable[Path]) -> Sources:
    """Find the files of paths; hidden ones and links inside folders are left out."""
    files: dict[Path, Source] = {}
    left_out = 0
    roots: list[Path] = []
    missing: list[Path] = []
    closed: list[Path] = []
    for path in (Path(os.path.abspath(given)) for given in paths):  # noqa: PTH100 - links stay
        if os.path.isdir(path):  # noqa: PTH112 - the method raises below a closed folder
            roots.append(path)
            for file in _walked(path, closed):
                if is_supported(file.name):
                    files.setdefault(file, Source(file, _name_below(path, file)))
                else:
                    left_out += 1
        elif os.path.isfile(path):  # noqa: PTH113 - the method raises, as above
            files.setdefault(path, Source(path, filed_as(path.name), named=True))
        else:
            missing.append(path)
    ordered = sorted(files.values(), key=lambda source: source.name)
    return Sources(tuple(ordered), left_out, tuple(roots), tuple(missing), tuple(closed))


def _walked(root: Path, closed: list[Path]) -> Iterator[Path]:
    """Yield the ordinary files below a folder; folders that refuse to be read go to `closed`."""
    for folder, folders, names in os.walk(root, onerror=lambda error: closed.append(_of(error))):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and is_ordinary(path):
                yield path


def _of(error: OSError) -> Path:
    return Path(error.filename)


def is_gone(path: Path, *, follow: bool) -> bool:
    """Tell whether no file has this path any more; one that cannot be looked at may be there.

    A link counts as the file it leads to only for who named it, as in the walk of a folder.
    """
    try:
        return not stat.S_ISREG(path.stat(follow_symlinks=follow).st_mode)
    except OSError as error:
        return error.errno in _NOWHERE


def _name_below(root: Path, file: Path) -> str:
    return filed_as(JOINT.join(file.relative_to(root).parts))


def read_source(source: Source, most: int) -> tuple[bytes, str]:
    """Return a file's bytes and their checksum.

    Raises:
        ConversionError: it cannot be read, or is larger than `most` bytes.
    """
    try:
        data = read_ordinary(source.path, most, follow=source.named)
    except OSError as error:
        raise ConversionError(
            f"The file cannot be read: {error.strerror}.", "Give this user access to it."
        ) from None
    if len(data) > most:
        raise ConversionError(f"The file is larger than {most} bytes.", "Split it.")
    return data, hashlib.sha256(data).hexdigest()
