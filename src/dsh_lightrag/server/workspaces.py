"""Which names a workspace may have, and where its base and files lie in a data folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsh_lightrag.server.backend import BackendError

if TYPE_CHECKING:
    from pathlib import Path

# Safe as a folder, as a part of a table's name and in every storage of LightRAG.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
BASE_FILE = "base.sqlite"
_RESERVED = frozenset(("base", "text", "entity", "relation", "full"))


class WorkspaceNameError(BackendError):
    """A text that can be no workspace's name; it is not repeated."""


def is_name(text: str) -> bool:
    """Tell whether a text can be a workspace's name."""
    return bool(_NAME.fullmatch(text)) and text not in _RESERVED


def checked_name(text: str) -> str:
    """Return the name.

    Raises:
        WorkspaceNameError: it is none.
    """
    if not is_name(text):
        raise WorkspaceNameError(
            "This can be no workspace's name.",
            "Use 1 to 41 lowercase letters, digits and underscores, beginning with a letter; not "
            f"{', '.join(sorted(_RESERVED))}.",
        )
    return text


def bases_folder(data: Path) -> Path:
    """Return the folder that holds a folder for each base of our own engine."""
    return data / "bases"


def inputs_folder(data: Path) -> Path:
    """Return the folder that holds an input folder for each workspace."""
    return data / "inputs"
