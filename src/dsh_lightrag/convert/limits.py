"""How much one conversion may take."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one conversion, in bytes and seconds.

    Attributes:
        file_bytes: the largest file that is looked at.
        text_bytes: the longest text, in UTF-8 bytes.
        unpacked_bytes: what a package may unpack to.
        memory_bytes: address space of the process that reads a binary format.
        seconds: its processor time, and its time by the clock.
    """

    file_bytes: int = 100 * MIB
    text_bytes: int = 32 * MIB
    unpacked_bytes: int = 512 * MIB
    memory_bytes: int = 2048 * MIB
    seconds: int = 180


DEFAULT_LIMITS = Limits()
