"""Ordinary files: told from links, pipes and folders, and read without waiting for any of these."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def is_ordinary(path: Path) -> bool:
    """Tell whether a path is an ordinary file's own, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # gone since its folder was listed, or of a name that no file can have
        return False


def read_ordinary(path: Path, max_bytes: int, *, follow: bool = False) -> bytes:
    """Return a file's bytes, one more than `max_bytes` at most; follows a link only if told to.

    Raises:
        OSError: it cannot be read, or something else has its name by now.
    """
    # A pipe of that name would be waited for without end.
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no ordinary file")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(max_bytes + 1)
