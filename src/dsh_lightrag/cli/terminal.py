"""Answers on stdout, everything else on stderr; a pipe, a narrow screen and no tty are ordinary."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from dsh_lightrag.logs import without_info

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

# Nothing is wrapped in a pipe: a line that `grep` finds must be whole.
PIPE_WIDTH = 10_000
# Narrower than this, Rich leaves words out.
LEAST_WIDTH = 20
_TOOL_NAME = re.compile(r"\bdsh_lightrag_(query|documents|status|insert|scan|delete)\b")


class _Console(Console):
    """A console that reports a closed pipe instead of ending the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def prepare_streams() -> None:
    """Let no character be unprintable: what an encoding lacks is written as an escape.

    A process may have been started without streams. Questions and complaints can do without,
    answers cannot: then nothing is done.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - it stays open
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as above
    if sys.stdout is None:
        sys.exit("dsh-lightrag: stdout is closed, so there is nowhere to put an answer.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_json(value: Any) -> None:
    """Write one JSON value to stdout: on one line, unless a person is looking."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    text = json.dumps(
        value,
        ensure_ascii=not encoding.startswith("utf"),
        indent=2 if sys.stdout.isatty() else None,
    )
    write_line(text)


def write_line(text: str) -> None:
    """Write plain text to stdout as it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_exactly(text: str) -> None:
    """Write text to stdout byte for byte; a terminal alone gets a line break after it."""
    if sys.stdout.isatty() and not text.endswith("\n"):
        text += "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def show(*renderables: RenderableType) -> None:
    """Print what people read to stdout; text is never read as markup."""
    console = console_for(stderr=False)
    if console.is_terminal:
        console.print(*renderables, sep="\n")
        return
    with console.capture() as captured:
        console.print(*renderables, sep="\n", soft_wrap=True)
    # Tables fill their last column up with blanks, which mean nothing in a pipe.
    write_line("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def complain(text: str) -> None:
    """Print a line to stderr."""
    console_for(stderr=True).print(Text(text), soft_wrap=True)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Turn a spinner on stderr while something slow runs; log records would tear it apart."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = Live(
        Spinner("dots", Text(what)),
        console=console_for(stderr=True),
        transient=True,
        redirect_stdout=False,  # or answers would go to stderr, too
    )
    with without_info(), spinner:
        yield


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that what was begun is ended."""

    def end(number: int, _frame: object) -> None:
        # Not Typer's own, which is an ordinary error: an event loop would log it and go on.
        raise SystemExit(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    try:
        before = {name: signal.signal(getattr(signal, name), end) for name in names}
    except ValueError:  # not the main thread, which alone may do so
        yield
        return
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def for_people(text: str) -> str:
    """Name commands where a text, written for models, names tools."""
    return _TOOL_NAME.sub(r"`dsh-lightrag \1`", text)


def console_for(*, stderr: bool) -> Console:
    """Make a console for the stream as it is now; `NO_COLOR` is Rich's business."""
    stream = sys.stderr if stderr else sys.stdout
    asked = os.environ.get("COLUMNS", "")
    columns = int(asked) if asked.isdecimal() and int(asked) >= LEAST_WIDTH else None
    if columns is None and not stream.isatty():
        columns = PIPE_WIDTH
    return _Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=columns,
    )
