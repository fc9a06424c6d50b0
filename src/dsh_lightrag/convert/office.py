"""PDF, Word, PowerPoint and Excel: the parent's side of the processes that read them.

The formats are large and their readers are other people's: each file gets a process of its own,
with bounds on memory and time, without network and without other files. Loading the readers takes
seconds, so a process that has loaded them is kept and forks one per file.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING

from dsh_lightrag.convert.faults import FAULTS, fault

if TYPE_CHECKING:
    from dsh_lightrag.convert.limits import Limits

# What a file of each format begins with.
_BEGINNINGS: dict[str, bytes] = {
    ".pdf": b"%PDF-",
    ".docx": b"PK\x03\x04",
    ".pptx": b"PK\x03\x04",
    ".xlsx": b"PK\x03\x04",
}
OFFICE = frozenset(_BEGINNINGS)
# The container of old Office files; today's have it when a password protects them.
_ENCRYPTED_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF_HEADER_WITHIN = 1024  # readers allow for junk before it
# Each may take all of the memory that the limits allow.
_AT_ONCE = threading.BoundedSemaphore(2)
# Beyond the time of a conversion: loading the readers, on a machine that is busy.
_GRACE_S = 60
_FAILED = 3  # the child's status when it says which fault it is
# What it means that a signal ended the child: its clocks, or the system short of memory.
_ENDED_BY = {
    -signal.SIGXCPU: "too-slow",
    -signal.SIGALRM: "too-slow",
    -signal.SIGKILL: "too-much-memory",
}
_INHERITED = (
    "PATH HOME LANG LC_ALL LC_CTYPE TMPDIR TEMP TMP PYTHONPATH LD_LIBRARY_PATH "
    "DYLD_LIBRARY_PATH SYSTEMROOT WINDIR"
)


def office_text(suffix: str, data: bytes, limits: Limits) -> str:
    """Return the text of a binary document.

    Raises:
        ConversionError: with the reason.
    """
    _check_beginning(suffix, data)
    if find_spec("markitdown") is None:
        raise fault("missing")
    with _AT_ONCE, tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as told:
        given.write(data)
        given.seek(0)
        status = _converted(suffix, given, told, limits)
        told.seek(0)
        said = told.read()
    if status == 0:
        return said.decode(errors="replace")
    key = said.decode("ascii", "replace") if status == _FAILED else _ENDED_BY.get(status, "")
    raise fault(key if key in FAULTS else "broken")


def _check_beginning(suffix: str, data: bytes) -> None:
    beginning = _BEGINNINGS[suffix]
    within = _PDF_HEADER_WITHIN if suffix == ".pdf" else len(beginning)
    if beginning in data[:within]:
        return
    raise fault("encrypted" if data.startswith(_ENCRYPTED_OFFICE) else "damaged")


def _converted(suffix: str, given: IO[bytes], told: IO[bytes], limits: Limits) -> int:
    """Let a kept process convert a file, and return its child's status.

    Files instead of pipes: no deadlock, and the system bounds what is written.
    """
    numbers = (limits.text_bytes, limits.unpacked_bytes, limits.memory_bytes, limits.seconds)
    job = " ".join((suffix, *map(str, numbers))).encode()
    for _ in range(2):  # one that was kept may have ended, of old age
        reader = _take_reader()
        try:
            status = reader.run(job, (given.fileno(), told.fileno()), limits.seconds + _GRACE_S)
        except BaseException:  # also when the wait is interrupted, nothing of it stays
            reader.close()
            raise
        if status is not None:
            _READERS.append(reader)
            return status
        reader.close()
    raise fault("broken")


class _Reader:
    """A process that has loaded the readers, and forks a child per file."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", "dsh_lightrag.convert.child", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,  # so that its children can be ended with it
            )

    def run(self, job: bytes, files: tuple[int, int], seconds: float) -> int | None:
        """Return the status of the child that did a job, or None when the process is gone.

        Raises:
            ConversionError: it takes too long.
        """
        self._socket.settimeout(seconds)
        try:
            socket.send_fds(self._socket, [job], files)
            said = self._socket.recv(16)
        except TimeoutError:
            raise fault("too-slow") from None
        except OSError:
            return None
        return int(said) if said else None

    def close(self) -> None:
        """End the process and its child."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


# Those that nobody uses now; append and pop are atomic.
_READERS: list[_Reader] = []


def _take_reader() -> _Reader:
    try:
        return _READERS.pop()
    except IndexError:
        return _Reader()


@atexit.register
def close_readers() -> None:
    """End the processes that are kept."""
    while _READERS:
        _READERS.pop().close()


def _environment() -> dict[str, str]:
    """Return what a process needs to run at all; keys and proxies stay outside."""
    kept = {name: os.environ[name] for name in _INHERITED.split() if name in os.environ}
    # Threads of the number libraries reserve memory that the limit would count.
    return kept | {"PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
