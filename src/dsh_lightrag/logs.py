"""Log records: one JSON line each, on stderr only, since stdout carries protocols.

Records hold names, sizes, counts, durations and codes; never a question, an answer, a text, a
source, an id or a key. The logger is our own and leaves a host's structlog set-up alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import select
import sys
import time
import traceback
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, TextIO, cast

from dsh_lightrag.errors import LightRagError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

# What a pipe that is said to have room takes without waiting (POSIX promises 512, Linux 4096).
PIPE_BUF = 4000
MAX_FRAMES = 12
_WITHOUT_INFO = ContextVar("without_info", default=False)


def _has_room(stream: TextIO) -> bool:
    """Say whether a record can be written without waiting.

    Many hosts never read the pipe they give a child as stderr. Once it is full a write would
    stop the event loop for ever; a lost record is the smaller harm.
    """
    try:
        return bool(select.select([], [stream.fileno()], [], 0)[1])
    except (AttributeError, OSError, ValueError):  # no descriptor, or none that can be asked
        return True


class _Stderr:
    """Writes to whatever stderr is now, so that redirecting it later still works."""

    def msg(self, message: str) -> None:
        """Write a line; a log that cannot be written never costs a result."""
        stream = sys.stderr
        if stream is None or not _has_room(stream):  # None: print would turn to stdout
            return
        with contextlib.suppress(OSError, ValueError):  # full, or closed
            print(message[:PIPE_BUF], file=stream, flush=True)

    debug = info = warning = error = critical = msg


@functools.cache  # making it takes longer than ten records
def get_logger() -> FilteringBoundLogger:
    """Return the plugin's logger."""
    # structlog loads Rich where Rich is installed.
    import structlog  # noqa: PLC0415 - a process that has nothing to record needs neither

    return cast(
        "FilteringBoundLogger",
        structlog.wrap_logger(
            _Stderr(),
            processors=[
                _drop_unwanted,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(ensure_ascii=True),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        ),
    )


@contextlib.contextmanager
def recorded(
    event: str, *, failure: Literal["info", "warning"] | None = "info", **names: str
) -> Iterator[dict[str, object]]:
    """Log one record of a call, however it ends; yields the facts of the record, to be filled.

    Args:
        event: what the record is of.
        failure: the level of a call that failed or was cancelled; None leaves its record out.
        names: what was called.
    """
    started = time.perf_counter()
    facts: dict[str, object] = {}
    outcome, level = "bug", failure
    try:
        yield facts
        outcome, level = "ok", "info"
    except LightRagError as error:
        outcome = error.code.value
        if error.status is not None:
            facts["status"] = error.status
        raise
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    except Exception as error:  # a bug: logged without its message, which may hold user text
        level = failure or "warning"  # who wants no failures told still wants to hear of this
        facts |= fault_of(error)
        raise
    finally:
        if level is not None:
            duration_ms = round((time.perf_counter() - started) * 1000, 1)
            write = getattr(get_logger(), level)
            write(event, **names, outcome=outcome, duration_ms=duration_ms, **facts)


@contextlib.contextmanager
def without_info() -> Iterator[None]:
    """Leave the records of ordinary calls out, for a terminal that a person watches."""
    token = _WITHOUT_INFO.set(True)
    try:
        yield
    finally:
        _WITHOUT_INFO.reset(token)


def _drop_unwanted(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    from structlog import DropEvent  # noqa: PLC0415 - as in get_logger, which is why it is loaded

    if method == "info" and _WITHOUT_INFO.get():
        raise DropEvent
    return event


def fault_of(error: BaseException) -> dict[str, object]:
    """Return what a record tells of an error that nobody is told of: its kind and its place."""
    return {"error": type(error).__name__, "frames": frames_of(error)}


def frames_of(error: BaseException) -> list[str]:
    """Return where an error rose, innermost last: file, line and function, at most twelve.

    A traceback's message and locals may hold what users wrote, so neither is kept.
    """
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    ]


def hush_http_libraries() -> None:
    """Hold the HTTP libraries' own loggers, which write URLs and headers, at WARNING."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
