"""Lines off a descriptor: whole whatever the pieces they come in."""

from __future__ import annotations

import os
import threading

import pytest

from dsh_lightrag.faces.mcp.stdio import CHUNK_BYTES, MAX_LINE_BYTES, lines_of
from dsh_lightrag.faces.mcp.wire import WireError, write_all


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


def test_a_line_of_the_most_bytes_is_whole_and_a_longer_one_is_refused():
    longest = "x" * MAX_LINE_BYTES
    assert lines(longest.encode() + b"\ny\n") == [longest, "y"]
    with pytest.raises(WireError, match="longer than"), open("/dev/zero", "rb") as endless:  # noqa: PTH123 - a device
        list(lines_of(endless.fileno()))


def test_what_cannot_be_read_or_written_is_said():
    reading, writing = os.pipe()
    try:
        with pytest.raises(WireError, match="stdin cannot be read"):
            list(lines_of(writing))
        with pytest.raises(WireError, match="stdout cannot be written"):
            write_all(reading, b"x")
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            write_all(writing, b"x")
    finally:
        os.close(writing)
