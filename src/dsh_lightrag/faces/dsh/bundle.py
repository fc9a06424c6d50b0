"""A bundle of the harness: a folder that `dsh plugin add file:DIR` installs into a profile."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_lightrag.errors import PLUGIN_NAME, ConfigurationError
from dsh_lightrag.faces.dsh.row import BRIDGE, Mode, patch
from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from dsh_lightrag.settings import LightRagSettings

PACKAGE_NAME = f"{PLUGIN_NAME}-bundle"
MANIFEST = "package.json"
PATCH = "cordis.patch.yml"
NOTE = f"# Written by `{PLUGIN_NAME} dsh-bundle`, which writes it anew each time.\n"


def write_bundle(folder: Path, settings: LightRagSettings, key_variable: str | None) -> None:
    """Write the bundle into a new or empty folder, or over one that was written before.

    Raises:
        ConfigurationError: the folder holds something else, and nothing was written; or it
            cannot be written.
    """
    files = {
        # First: it marks the folder as ours, should anything interrupt us.
        MANIFEST: json.dumps(_manifest(), indent=2) + "\n",
        PATCH: NOTE + patch(settings, Mode.BARE, key_variable, f"./{BRIDGE.name}"),
        BRIDGE.name: BRIDGE.read_text(encoding="utf-8"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not _is_ours(folder):
            raise ConfigurationError(
                "DIR", "holds files that are no bundle of ours.", "Name a new or empty folder."
            )
        for name, text in files.items():
            _replace(folder / name, text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError("DIR", f"cannot be written ({reason}).", "") from None


def _manifest() -> dict[str, object]:
    return {
        "name": PACKAGE_NAME,
        "version": __version__,
        "description": "Knowledge-base tools over a LightRAG index.",
        "license": "MIT",
        "private": True,
        "type": "module",
        "main": f"./{BRIDGE.name}",
        "files": [PATCH, BRIDGE.name],
        "dsh": {"bundle": {"patch": f"./{PATCH}"}},
    }


def _is_ours(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("name") == PACKAGE_NAME


def _replace(path: Path, text: str) -> None:
    """Put a file in place as a whole; a link there is replaced, not followed."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:  # an interrupt too must leave no half of a file
        Path(temporary).unlink(missing_ok=True)
        raise
