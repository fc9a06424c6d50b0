"""What a transaction changed, for the indexes in memory to learn once it is durable."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Change:
    """What a transaction changed, for the indexes in memory; None means that it is gone."""

    edges: dict[int, bytes | None] = field(default_factory=dict)
    common: dict[int, bool] = field(default_factory=dict)
    vectors: dict[int, bytes | None] = field(default_factory=dict)
    titles: Counter[str] = field(default_factory=Counter)

    def add(self, later: Change) -> None:
        """Take in a change that the same transaction made after this one."""
        self.edges |= later.edges
        self.common |= later.common
        self.vectors |= later.vectors
        self.titles.update(later.titles)
