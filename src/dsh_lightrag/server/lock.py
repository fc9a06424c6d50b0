"""The lock file of a data folder, `server.json`: who serves it, and where.

A lock of the operating system on the file says that its server lives; it goes with the process,
however that ends. What a dead server left in the file counts for nothing.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ValidationError

from dsh_lightrag.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

NAME = "server.json"
_ATTEMPTS = 5
_ATTEMPT_S = 0.05


class Running(BaseModel):
    """A server that serves a data folder now."""

    url: str
    pid: int


def running_server(data: Path) -> Running | None:
    """Return the server of a data folder, or None where none lives or it has not begun yet.

    Raises:
        ConfigurationError: the folder cannot be looked into, or is none.
    """
    try:
        descriptor = os.open(data / NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            "--data", f"cannot be read: {error.strerror}.", "Name a folder of yours."
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # held: its server lives
            with suppress(ValidationError):
                return Running.model_validate_json(file.read())
        return None


class DataLock:
    """Holds a data folder for one server; a context manager.

    Raises:
        ConfigurationError: on entering, where another server has it, or it cannot be written.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._path = data / NAME
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self._data.mkdir(parents=True, exist_ok=True)
            while not self._is_held():
                self._take()
        except BlockingIOError:
            self._let_go()
            other = running_server(self._data)
            where = f" at {other.url}" if other else ""
            raise ConfigurationError(
                "--data", f"is served already{where}.", "Use that server, or another folder."
            ) from None
        except OSError as error:
            self._let_go()
            raise ConfigurationError(
                "--data", f"cannot be written: {error.strerror}.", "Choose another folder."
            ) from None
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Removed while it is still locked: a successor would otherwise lose its own.
        self._path.unlink(missing_ok=True)
        self._let_go()

    def announce(self, url: str) -> None:
        """Write where the server listens."""
        said = Running(url=url, pid=os.getpid()).model_dump_json()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, said.encode(), 0)

    def _take(self) -> None:
        self._let_go()
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        for last in (False,) * _ATTEMPTS + (True,):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # perhaps only one who looks whether a server lives
                if last:
                    raise
                time.sleep(_ATTEMPT_S)

    def _is_held(self) -> bool:
        """Tell whether what is locked is still the file of that name, not one just removed."""
        if self._descriptor < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
