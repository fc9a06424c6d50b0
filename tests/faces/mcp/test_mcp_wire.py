"""Lines off a descriptor: whole whatever the pieces they come in."""

from __future__ import annotations

import os
import threading

import pytest

from dsh_lightrag.faces.mcp.stdio import CHUNK_BYTES, lines_of


def lines(*writes):
    reading, writing = os.pipe()

    def write():
        for data in writes:
            left = data
            while left:
                left = left[os.write(writing, left) :]
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        return list(lines_of(reading))
    finally:
        thread.join()
        os.close(reading)


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ([], []),
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc", b"\n"], ["ab", "c"]),
        ([b"\n\n"], ["", ""]),
        ([b"no newline at the end"], ["no newline at the end"]),
        ([b"\xff\n"], ["\N{REPLACEMENT CHARACTER}"]),
        (["é".encode()[:1], "é".encode()[1:] + b"\n"], ["é"]),
        ([b"x" * (3 * CHUNK_BYTES) + b"\ny\n"], ["x" * (3 * CHUNK_BYTES), "y"]),
    ],
)
def test_lines_are_whole(writes, expected):
    assert lines(*writes) == expected
