"""The process that reads one binary document: `python -m dsh_lightrag.convert.child`.

The document comes on stdin, its text goes to stdout. Status 3 means that stdout names a fault.
The readers are `markitdown`'s single converters, never its front, which fetches addresses.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_lightrag.convert.archive import RefusedError, check_package

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONVERTERS: dict[str, str] = {
    ".pdf": "PdfConverter",
    ".docx": "DocxConverter",
    ".pptx": "PptxConverter",
    ".xlsx": "XlsxConverter",
}
FAILED = 3
# Which fault an exception means, by its name: the readers' own are not all imported here. The
# first match along the chain of causes counts.
MEANINGS: dict[str, str] = {
    "PDFPasswordIncorrect": "encrypted",
    "PDFEncryptionError": "encrypted",
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
    """Convert stdin; the arguments are the suffix and the numbers of `office`."""
    suffix = arguments[0]
    text_bytes, unpacked_bytes, memory_bytes, seconds = map(int, arguments[1:])
    _limit(text_bytes, memory_bytes, seconds)
    try:
        said = _converted(suffix, unpacked_bytes).encode(errors="replace")
    except Exception as error:  # noqa: BLE001 - a reader raises anything at all over a bad file
        return _tell(_meaning(error))
    if len(said) > text_bytes:
        return _tell("too-much-text")
    sys.stdout.buffer.write(said)
    sys.stdout.flush()
    return 0


def _converted(suffix: str, unpacked_bytes: int) -> str:
    data = sys.stdin.buffer.read()
    if suffix != ".pdf":
        check_package(data, unpacked_bytes)
    convert = _converter(suffix)
    sys.addaudithook(_guard())
    return convert(data)


def _converter(suffix: str) -> Callable[[bytes], str]:
    import io  # noqa: PLC0415 - beside its only use

    try:
        from markitdown import StreamInfo, converters  # noqa: PLC0415 - costly, and after the check
    except ImportError:
        raise RefusedError("missing") from None
    converter: Any = getattr(converters, CONVERTERS[suffix])()

    def convert(data: bytes) -> str:
        return str(converter.convert(io.BytesIO(data), StreamInfo(extension=suffix)).markdown)

    return convert


def _limit(text_bytes: int, memory_bytes: int, seconds: int) -> None:
    """Bound this process; where the system knows no such bounds, the parent's clock remains."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - Unix alone has it

    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, text_bytes),
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
