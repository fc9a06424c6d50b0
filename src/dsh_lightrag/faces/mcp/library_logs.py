"""What the protocol's libraries log, without what they would quote.

Their messages and tracebacks hold requests, session ids and results; ours never do. So of theirs
stays who logged, where and how bad it is, and of an exception its type and its frames.
"""

from __future__ import annotations

import logging

from dsh_lightrag.logs import fault_of, get_logger


class _WithoutText(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, object] = {
            "logger": record.name,
            "at": f"{record.filename}:{record.lineno}",
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            facts |= fault_of(error)
        log = get_logger()
        (log.error if record.levelno >= logging.ERROR else log.warning)("library_log", **facts)


def hush_libraries() -> None:
    """Let warnings and errors of every library through, without their text."""
    logging.basicConfig(handlers=[_WithoutText()], level=logging.WARNING, force=True)
