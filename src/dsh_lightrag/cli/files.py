"""What a command is given to read: a file, or stdin where it says `-`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

STDIN = "-"


def read_bytes(file: Path | None, most: int = -1, hint: str | None = None) -> bytes:
    """Return what a file holds, or stdin for None; at most `most` bytes are ever held.

    Raises:
        typer.BadParameter: it cannot be read; `hint` names the parameter that named it.
    """
    if file is None:
        return sys.stdin.buffer.read(most)
    try:
        with file.open("rb") as stream:
            return stream.read(most)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise typer.BadParameter(f"{file} cannot be read: {reason}.", param_hint=hint) from None
