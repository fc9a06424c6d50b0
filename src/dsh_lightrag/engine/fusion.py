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
    rankings: Mapping[Signal, Ranking],
    weights: Mapping[Signal, float],
    smoothing: float = 60.0,
    limit: int | None = None,
) -> list[Fused]:
    """Return at most `limit` chunks, best first: the sum of weight / (smoothing + rank).

    A ranking of weight 0 is as if it were not there. Equal sums keep the order of insertion.
    """
    heard = {
        signal: rankings[signal] for signal in sorted(rankings) if weights.get(signal, 0.0) > 0
    }
    scores: dict[int, float] = {}
    for signal, ranking in heard.items():
        weight = weights[signal]
        for rank, chunk in enumerate(ranking.chunks, start=1):
            scores[chunk] = scores.get(chunk, 0.0) + weight / (smoothing + rank)
    best = [
        chunk for _, chunk in sorted((-score, chunk) for chunk, score in scores.items())[:limit]
    ]
    placings: dict[int, dict[Signal, Placing]] = {chunk: {} for chunk in best}
    for signal, ranking in heard.items():
        for place, chunk in enumerate(ranking.chunks):
            if chunk in placings:
                share = weights[signal] / (smoothing + place + 1)
                placings[chunk][signal] = Placing(place + 1, ranking.scores[place], share)
    return [Fused(chunk, scores[chunk], placings[chunk]) for chunk in best]


def followed(first: list[Fused], then: Iterable[Fused]) -> list[Fused]:
    """Return the first list with whatever else the second has behind it, scores still falling."""
    seen = {item.chunk for item in first}
    floor = first[-1].score if first else 1.0
    rest = [item for item in then if item.chunk not in seen]
    top = rest[0].score if rest else 1.0
    return first + [
        Fused(item.chunk, floor * item.score / (2 * top), item.placings) for item in rest
    ]
