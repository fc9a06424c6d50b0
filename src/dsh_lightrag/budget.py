"""One wall-clock budget for one tool call, however many requests it makes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Budget:
    """Time that a call may take.

    Attributes:
        total_ms: the whole of it in milliseconds, for the error text.
        ends_at: the running event loop's time at which it is used up, in seconds.
    """

    total_ms: int
    ends_at: float

    @classmethod
    def start(cls, total_ms: int) -> Self:
        """Start the clock now, on the running event loop."""
        return cls(total_ms, asyncio.get_running_loop().time() + total_ms / 1000)
