"""The files and folders that a command is given; `-` is stdin where it reads one."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

STDIN = "-"


def named_path(text: str) -> Path:
    """Return the path that somebody wrote: a parser of Typer's, for folders above all.

    Raises:
        typer.BadParameter: it is blank, as a variable is that was never set; Python would take it
            for the current folder.
    """
    if not text.strip():
        raise typer.BadParameter("A path is blank. Write . for the current folder.")
    return Path(text)


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
