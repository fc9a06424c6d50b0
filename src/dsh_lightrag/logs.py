"""Log records: one JSON line each, on stderr only, since stdout carries protocols.

Records hold names, sizes, counts, durations and codes; never a question, an answer, a text, a
source, an id or a key. The logger is our own and leaves a host's structlog set-up alone.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, cast

import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class _Stderr:
    """Writes to whatever stderr is now, so that redirecting it later still works."""

    def msg(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)  # noqa: T201 - this is the log's only exit

    debug = info = warning = error = critical = msg


def get_logger() -> FilteringBoundLogger:
    """Return the plugin's logger."""
    return cast(
        "FilteringBoundLogger",
        structlog.wrap_logger(
            _Stderr(),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(ensure_ascii=True),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        ),
    )


def frames_of(error: BaseException) -> list[str]:
    """Return where an error rose, innermost last: file, line and function.

    A traceback's message and locals may hold what users wrote, so neither is kept.
    """
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def hush_http_libraries() -> None:
    """Hold the HTTP libraries' own loggers, which write URLs and headers, at WARNING."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
