"""Several rankings made one: weighted reciprocal rank, a pure function of chunk numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.engine.model import Placing, Ranking, Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk's place in the whole, and in each ranking that has it."""

    chunk: int
    score: float
    placings: dict[Signal, Placing] = field(default_factory=dict)


def fuse(
    rankings: Mapping[Signal, Ranking], weights: Mapping[Signal, float], smoothing: float = 60.0
) -> list[Fused]:
    """Return every ranked chunk, best first: the sum of weight / (smoothing + rank).

    A ranking of weight 0 is as if it were not there. Equal sums keep the order of insertion.
    """
    placings: dict[int, dict[Signal, Placing]] = {}
    for signal in sorted(rankings):
        weight = weights.get(signal, 0.0)
        if weight <= 0:
            continue
        ranking = rankings[signal]
        for rank, (chunk, score) in enumerate(
            zip(ranking.chunks, ranking.scores, strict=True), start=1
        ):
            share = weight / (smoothing + rank)
            placings.setdefault(chunk, {})[signal] = Placing(rank, score, share)
    fused = [
        Fused(chunk, sum(placing.share for placing in places.values()), places)
        for chunk, places in placings.items()
    ]
    return sorted(fused, key=lambda item: (-item.score, item.chunk))


def followed(first: list[Fused], then: Iterable[Fused]) -> list[Fused]:
    """Return the first list with whatever else the second has behind it, scores still falling."""
    seen = {item.chunk for item in first}
    floor = first[-1].score if first else 1.0
    rest = [item for item in then if item.chunk not in seen]
    top = rest[0].score if rest else 1.0
    return first + [
        Fused(item.chunk, floor * item.score / (2 * top), item.placings) for item in rest
    ]
