"""PDF, Word, PowerPoint and Excel: the parent's side of the process that reads them.

The formats are large and their readers are other people's: each file gets a process of its own,
with bounds on memory and time, without network and without other files.
"""

from __future__ import annotations

import os
import signal
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
_GRACE_S = 5
_FAILED = 3  # the child's status when it says which fault it is
# What it means that a signal ended the child: its clocks, or the system short of memory.
_ENDED_BY = {
    getattr(signal, name): key
    for name, key in (
        ("SIGXCPU", "too-slow"),
        ("SIGALRM", "too-slow"),
        ("SIGKILL", "too-much-memory"),
    )
    if hasattr(signal, name)
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
        status = _run(suffix, given, told, limits)
        told.seek(0)
        said = told.read()
    if status == 0:
        return said.decode(errors="replace")
    key = said.decode("ascii", "replace") if status == _FAILED else _ENDED_BY.get(-status, "")
    raise fault(key if key in FAULTS else "broken")


def _check_beginning(suffix: str, data: bytes) -> None:
    beginning = _BEGINNINGS[suffix]
    within = _PDF_HEADER_WITHIN if suffix == ".pdf" else len(beginning)
    if beginning in data[:within]:
        return
    raise fault("encrypted" if data.startswith(_ENCRYPTED_OFFICE) else "damaged")


def _run(suffix: str, given: IO[bytes], told: IO[bytes], limits: Limits) -> int:
    """Run the child to its end and return its status; it never outlives this call."""
    numbers = (limits.text_bytes, limits.unpacked_bytes, limits.memory_bytes, limits.seconds)
    command = [sys.executable, "-P", "-m", "dsh_lightrag.convert.child", suffix, *map(str, numbers)]
    # Files instead of pipes: no deadlock, and the system bounds what is written.
    with subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command, stdin=given, stdout=told, stderr=subprocess.DEVNULL, env=_environment()
    ) as child:
        try:
            return child.wait(limits.seconds + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise fault("too-slow") from None
        finally:  # also when the wait is interrupted
            child.kill()


def _environment() -> dict[str, str]:
    """Return what a process needs to run at all; keys and proxies stay outside."""
    kept = {name: os.environ[name] for name in _INHERITED.split() if name in os.environ}
    # Threads of the number libraries reserve memory that the limit would count.
    return kept | {"PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
