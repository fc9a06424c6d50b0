"""Keeps stdin and stdout for the protocol: whatever prints, prints to stderr.

Imported before anything else of the package, so it imports nothing that could print.
"""

from __future__ import annotations

import os
from typing import NamedTuple

STDIN, STDOUT, STDERR = 0, 1, 2


class Wire(NamedTuple):
    """Descriptors of the real stdin and stdout; child processes do not inherit them."""

    reading: int
    writing: int


def claim_wire() -> Wire:
    """Point descriptor 0 at nothing and 1 at stderr, and return what they were.

    On descriptors, not on `sys.stdout`: C libraries and child processes print and read too.
    """
    wire = Wire(os.dup(STDIN), os.dup(STDOUT))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    return wire
