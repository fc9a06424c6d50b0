"""Keeps stdin and stdout for the protocol: whatever prints, prints to stderr.

Imported before anything else of the package, so it imports nothing that could print.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

STDIN, STDOUT, STDERR = 0, 1, 2


class WireError(Exception):
    """Stdin or stdout failed; the text says which of them, and how."""


class Wire(NamedTuple):
    """Descriptors of the real stdin and stdout; child processes do not inherit them.

    None stands for one that was closed before the process began.
    """

    reading: int | None
    writing: int | None


def claim_wire() -> Wire:
    """Point descriptor 0 at nothing and 1 at stderr, and return what they were.

    On descriptors, not on `sys.stdout`: C libraries and child processes print and read too.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    while nothing <= STDERR:  # the numbers of closed streams are the first to be given out
        nothing = os.open(os.devnull, os.O_RDWR)
    wire = Wire(
        None if sys.__stdin__ is None else os.dup(STDIN),
        None if sys.__stdout__ is None else os.dup(STDOUT),
    )
    if sys.__stderr__ is None:
        os.dup2(nothing, STDERR)
    os.dup2(nothing, STDIN)
    os.dup2(STDERR, STDOUT)
    os.close(nothing)
    return wire


def let_unwritable_go() -> None:
    """Point stdout and stderr at nothing where what they hold cannot be written.

    The interpreter flushes them last of all, and would change the exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def read_some(descriptor: int, size: int) -> bytes:
    """Read up to `size` bytes; none at the end.

    Raises:
        WireError: stdin cannot be read.
    """
    try:
        return os.read(descriptor, size)
    except OSError as error:
        raise WireError(f"stdin cannot be read: {error.strerror}.") from None


def write_all(descriptor: int, data: bytes) -> None:
    """Write the bytes, however many writes that takes.

    Raises:
        BrokenPipeError: nobody reads stdout any more.
        WireError: stdout cannot be written.
    """
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WireError(f"stdout cannot be written: {error.strerror}.") from None
