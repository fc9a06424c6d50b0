"""Which pipeline files a person trusts: their digests, remembered in the user's state folder.

A file names the servers that its prompts go to, so the first time a person says yes to it; any
change to the file makes it another one. Each trusted digest is one empty file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FOLDER = "dsh-lightrag"


def state_folder() -> Path:
    """Return the folder for what a person's programs remember, as the platform has it.

    Raises:
        RuntimeError: the person has no home folder.
    """
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / _FOLDER
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _FOLDER
    state = os.environ.get("XDG_STATE_HOME", "")
    # The base directory specification: a relative path in the variable is to be ignored.
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / _FOLDER


def is_trusted(digest: str) -> bool:
    """Say whether the person has trusted a file of this digest before."""
    try:
        return _path_of(digest).is_file()
    except (RuntimeError, OSError):  # nothing can be remembered here, so nothing is
        return False


def remember(digest: str) -> None:
    """Trust files of this digest from now on.

    Raises:
        RuntimeError: the person has no home folder.
        OSError: the folder cannot be written.
    """
    path = _path_of(digest)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)


def _path_of(digest: str) -> Path:
    return state_folder() / "trusted-pipelines" / digest
