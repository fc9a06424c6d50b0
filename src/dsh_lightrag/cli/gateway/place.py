"""Where the gateway of a data folder is reached while it runs: a private file in that folder."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "gateway.json"


class Running(BaseModel):
    """A gateway that runs; the database's URL holds its password, so the file is private."""

    pid: int
    url: str
    database_url: str


def running_gateway(folder: Path) -> Running | None:
    """Return the gateway of a folder, or None where none runs."""
    with contextlib.suppress(OSError, ValidationError):
        found = Running.model_validate_json((folder / NAME).read_bytes())
        os.kill(found.pid, 0)  # fails for one that was killed, and for who got its number since
        return found
    return None


@contextlib.contextmanager
def announced(folder: Path, running: Running) -> Iterator[None]:
    """Let others find the gateway while the block runs."""
    path = folder / NAME
    fresh = folder / f"{NAME}.new"
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(running.model_dump_json())
    fresh.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
