"""Folders are removed by losing their names first, in one step, durably.

So there is never half of a workspace, and what a killed process leaves, or a disk refuses to give
up, bears nobody's name: it is taken up by nothing, and removed when its neighbours next are.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from dsh_lightrag.engine.schema import sync
from dsh_lightrag.logs import get_logger

if TYPE_CHECKING:
    from pathlib import Path

DROPPED = ".dropped-"


def drop_folder(folder: Path) -> bool:
    """Remove a folder with all it holds; tell whether there was one.

    Raises:
        OSError: it could not be renamed; or, its name gone, something of it or of one dropped
            before it is still there.
    """
    try:
        # The new name does not tell the old one: a failed removal leaves no name behind.
        folder.rename(folder.with_name(f"{DROPPED}{secrets.token_hex(8)}"))
        sync(folder.parent)
    except FileNotFoundError:
        there = False
    else:
        there = True
    for left in folder.parent.glob(f"{DROPPED}*"):
        remove(left)
    return there


def sweep(parent: Path) -> None:
    """Remove what dropped folders have left; what cannot be removed is told in the log."""
    for left in parent.glob(f"{DROPPED}*"):
        remove_if_possible(left)


def remove(folder: Path) -> None:
    """Remove a folder that nobody will look for; one that is gone is removed already.

    Raises:
        OSError: something of it is still there.
    """
    with suppress(FileNotFoundError):  # another sweep was faster
        shutil.rmtree(folder)


def remove_if_possible(folder: Path) -> None:
    """Remove a folder, or tell the log why not; a later sweep tries again."""
    try:
        remove(folder)
    except OSError as error:
        get_logger().warning("folder_not_removed", error=type(error).__name__)
