"""The process that reads binary documents: `python -m dsh_lightrag.convert.child SOCKET`.

It loads the readers once and forks a child per document: limits first, then the package is checked,
then it is converted. The document comes on the child's stdin, its text goes to stdout; status 3
means that stdout names a fault. The readers are `markitdown`'s single converters, never its front,
which fetches addresses.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_lightrag.convert.archive import RefusedError, check_package

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# So long it waits for a document before it ends.
IDLE_S = 60.0
CONVERTERS: dict[str, str] = {
    ".pdf": "PdfConverter",
    ".docx": "DocxConverter",
    ".pptx": "PptxConverter",
    ".xlsx": "XlsxConverter",
}
FAILED = 3
_LONGEST_FAULT = 32  # bytes: a fault is told under the same limit as a text
# Which fault an exception means, by its name: the readers' own are not all imported here. The
# first match along the chain of causes counts.
MEANINGS: dict[str, str] = {
    "PDFPasswordIncorrect": "encrypted",
    "PDFEncryptionError": "encrypted",
    "ImportError": "missing",
    "MemoryError": "too-much-memory",
    "RecursionError": "nested",
    "PermissionError": "reaches-out",
    "MissingDependencyException": "missing",
    "EntitiesForbidden": "entities",
}
# Audit events that no conversion needs; `open` is looked at more closely.
FORBIDDEN = ("socket.", "subprocess.", "os.", "shutil.", "ftplib.", "urllib.", "webbrowser.")
HARMLESS = frozenset(("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv"))
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main(arguments: Sequence[str]) -> int:
    """Fork a child per document until nobody wants one; the argument is the socket's number."""
    with socket.socket(fileno=int(arguments[0])) as jobs:
        for suffix in CONVERTERS:
            _converter(suffix)
        gc.freeze()  # what is loaded is shared with the children
        while select.select([jobs], [], [], IDLE_S)[0]:
            job, files, *_ = socket.recv_fds(jobs, 256, 2)
            if not job:
                break
            status = _in_a_child(job.decode(), files)
            for file in files:
                os.close(file)
            jobs.send(str(status).encode())
    return 0


def _in_a_child(job: str, files: list[int]) -> int:
    """Do a job in a forked process and return its status, or the number of its signal below 0."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for place, file in enumerate(files):
                os.dup2(file, place)
            status = converted(job.split())
        finally:  # whatever happens, it is not the parent's loop that goes on here
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def converted(arguments: Sequence[str]) -> int:
    """Convert stdin; the arguments are the suffix and the numbers of `office`."""
    suffix = arguments[0]
    text_bytes, unpacked_bytes, memory_bytes, seconds = map(int, arguments[1:])
    try:
        convert = _converter(suffix)
        _limit(text_bytes, memory_bytes, seconds)
        data = sys.stdin.buffer.read()
        if suffix != ".pdf":
            check_package(data, unpacked_bytes)
        sys.addaudithook(_guard())
        said = convert(data).encode(errors="replace")
    except Exception as error:  # noqa: BLE001 - a reader raises anything at all over a bad file
        return _tell(_meaning(error))
    if len(said) > text_bytes:
        return _tell("too-much-text")
    sys.stdout.buffer.write(said)
    sys.stdout.flush()
    return 0


def _converter(suffix: str) -> Callable[[bytes], str]:
    from markitdown import StreamInfo, converters  # noqa: PLC0415 - an extra, loaded before the fork

    converter: Any = getattr(converters, CONVERTERS[suffix])()

    def convert(data: bytes) -> str:
        return str(converter.convert(io.BytesIO(data), StreamInfo(extension=suffix)).markdown)

    return convert


def _limit(text_bytes: int, memory_bytes: int, seconds: int) -> None:
    """Bound this process."""
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, text_bytes + _LONGEST_FAULT),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, seconds),
    ):
        hard = resource.getrlimit(kind)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS refuses some
            resource.setrlimit(kind, (soft, hard))
    signal.alarm(seconds + 1)  # for a parent that was killed meanwhile


def _guard() -> Callable[[str, tuple[Any, ...]], None]:
    """Make an audit hook that lets a reader read its own code and data, and nothing else."""
    homes = {Path(path).resolve() for path in (*sys.path, sys.prefix, sys.base_prefix) if path}
    prefixes = tuple(f"{home}{os.sep}" for home in homes)

    def guard(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            if isinstance(path, int):
                return
            if flags & WRITES or not os.path.realpath(os.fsdecode(path)).startswith(prefixes):
                raise PermissionError(event)
        elif event.startswith(FORBIDDEN) and event not in HARMLESS:
            raise PermissionError(event)

    return guard


def _meaning(error: BaseException) -> str:
    if isinstance(error, RefusedError):
        return error.key
    chain: BaseException | None = error
    while chain is not None:
        for kind in type(chain).__mro__:
            if kind.__name__ in MEANINGS:
                return MEANINGS[kind.__name__]
        inner = next((arg for arg in chain.args if isinstance(arg, BaseException)), None)
        chain = chain.__cause__ or chain.__context__ or inner
    return "damaged"


def _tell(key: str) -> int:
    sys.stdout.write(key)
    sys.stdout.flush()
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
