"""Signal 3: chunks and the entities they name, as a graph in memory.

Two rankings come from the names in a question. *Entities* (one hop): chunks that name them, then
chunks that share rare names with the best of those. *Relations* (personalised PageRank): where a
walker ends up who starts at these names, goes from name to chunk to name, and starts over now and
then. Rare names count more in both, everywhere.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine import edges
from dsh_lightrag.engine.edges import Role
from dsh_lightrag.engine.model import Ranking
from dsh_lightrag.engine.vectors import best

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

_FIRST_CHUNKS = 20  # the chunks whose names make the second step of one hop
# More steps, or following a walker anywhere, changed no answer that was measured; this is seven
# times faster and keeps a name that half the collection has from touching all of it.
_STEPS = 12
_LEAST = 1e-4  # a walker less likely than this at a place is not followed further
_TITLE_MENTIONS = 2  # an own title is as good as two more mentions,
_TITLE_WEIGHT = 3  # and then weighs three times: a walker finds from a name to its own passage


@dataclass(frozen=True)
class Walk:
    """How likely a walker is at each chunk and at each entity."""

    chunks: Floats
    entities: Floats


class View:
    """The graph at one moment; it never changes, so that a search needs no lock."""

    def __init__(self, packed: Mapping[int, bytes], common: set[int]) -> None:
        self.numbers: Numbers = np.fromiter(packed, dtype=np.int64, count=len(packed))
        data = b"".join(packed.values())
        raw = np.frombuffer(data, edges.DTYPE) if data else np.empty(0, edges.DTYPE)
        lengths = np.fromiter((len(value) // 8 for value in packed.values()), dtype=np.int64)
        chunk = np.repeat(np.arange(len(packed)), lengths)
        entity = raw["entity"].astype(np.int64)
        self.entities = int(entity.max()) + 1 if len(entity) else 0
        kept = _counts(raw["role"], entity, common, self.entities)
        self._chunk, self._entity = chunk[kept], entity[kept]
        self._weight = _weights(raw["count"][kept], raw["role"][kept])

    @cached_property
    def mentions(self) -> Numbers:
        """In how many chunks each entity is named."""
        return np.bincount(self._entity, minlength=self.entities)

    @cached_property
    def rarity(self) -> Floats:
        """The inverse document frequency of each entity, as BM25 has it."""
        without = len(self.numbers) - self.mentions
        return np.asarray(np.log(1 + (without + 0.5) / (self.mentions + 0.5)), dtype=np.float64)

    @cached_property
    def _of_chunk(self) -> Numbers:
        """Where each chunk's edges begin; they lie in order."""
        return np.concatenate([[0], np.cumsum(np.bincount(self._chunk, minlength=self._size))])

    @property
    def _size(self) -> int:
        return len(self.numbers)

    @cached_property
    def _by_entity(self) -> tuple[Numbers, Numbers]:
        """Where each entity's edges begin in the second array, which holds edges by entity."""
        starts = np.concatenate([[0], np.cumsum(self.mentions)])
        # One sort of numbers made of entity and edge is several times faster than an argsort.
        keyed = (self._entity << 32) | np.arange(len(self._entity))
        keyed.sort()
        return starts, keyed & 0xFFFFFFFF

    @cached_property
    def _rare(self) -> Floats:
        """Each edge's weight times the rarity of its entity."""
        return np.asarray(self._weight * self.rarity[self._entity])

    @cached_property
    def _lengths(self) -> Floats:
        """The Euclidean length of each chunk's edges."""
        return np.sqrt(np.bincount(self._chunk, self._rare**2, minlength=self._size)) + 1e-6

    @cached_property
    def _from_chunk(self) -> Floats:
        """How likely a walker leaves a chunk along each edge."""
        total = np.bincount(self._chunk, self._rare, minlength=self._size)
        return np.asarray(self._rare / np.maximum(total, 1e-12)[self._chunk])

    @cached_property
    def _from_entity(self) -> Floats:
        """How likely a walker leaves an entity along each edge."""
        total = np.bincount(self._entity, self._weight, minlength=self.entities)
        return np.asarray(self._weight / np.maximum(total, 1e-12)[self._entity])

    def chunks_of(self, entity: int) -> list[int]:
        """Return the numbers of the chunks that name an entity."""
        if entity >= self.entities:
            return []
        at = self._edges_of_entities(np.array([entity]))
        return [int(number) for number in self.numbers[self._chunk[at]]]

    def chunks_of_both(self, one: int, other: int) -> list[int]:
        """Return the numbers of the chunks that name both entities."""
        second = set(self.chunks_of(other))
        return [chunk for chunk in self.chunks_of(one) if chunk in second]

    def entities_of(self, chunks: list[int]) -> dict[int, dict[int, float]]:
        """Return for each chunk number its entities with their weight there."""
        found: dict[int, dict[int, float]] = {}
        for chunk, place in zip(chunks, np.searchsorted(self.numbers, chunks), strict=True):
            if place < self._size and self.numbers[place] == chunk:
                at = slice(self._of_chunk[place], self._of_chunk[place + 1])
                pairs = zip(self._entity[at].tolist(), self._rare[at].tolist(), strict=True)
                found[chunk] = dict(pairs)
        return found

    def one_hop(self, seeds: Mapping[int, float], limit: int) -> Ranking:
        """Rank chunks by the rare names they share with the seeds, or with their best chunks."""
        start = self._start(seeds)
        if not start.any():
            return Ranking()
        at = self._edges_of_entities(np.flatnonzero(start))
        first = self._toward_chunks(at, start / _length(start))
        found = np.flatnonzero(first)
        top = found[np.lexsort((found, -first[found]))][:_FIRST_CHUNKS]
        at = _ranges(self._of_chunk, top)
        flow = first[self._chunk[at]] * self._rare[at] / self._lengths[self._chunk[at]]
        second = _summed(self._entity[at], flow, self.entities)
        second[start > 0] = 0
        if second.any():
            second /= _length(second)
        at = self._edges_of_entities(np.flatnonzero(second))
        return self._ranking(first + self._toward_chunks(at, second), limit)

    def walk(self, seeds: Mapping[int, float], damping: float) -> Walk:
        """Follow the walker from the seeds until next to nothing of it is under way."""
        at_entity = self._start(seeds)
        at_entity /= max(at_entity.sum(), 1e-12)
        chunks, entities = np.zeros(self._size), np.zeros(self.entities)
        for _ in range(_STEPS // 2):
            entities += (1 - damping) * at_entity
            at = self._edges_of_entities(np.flatnonzero(at_entity > _LEAST))
            flow = damping * at_entity[self._entity[at]] * self._from_entity[at]
            at_chunk = _summed(self._chunk[at], flow, self._size)
            chunks += (1 - damping) * at_chunk
            at = _ranges(self._of_chunk, np.flatnonzero(at_chunk > _LEAST))
            flow = damping * at_chunk[self._chunk[at]] * self._from_chunk[at]
            at_entity = _summed(self._entity[at], flow, self.entities)
            if not len(at):
                break
        return Walk(chunks, entities)

    def ranked(self, walk: Walk, limit: int) -> Ranking:
        """Rank chunks by where a walk ends."""
        return self._ranking(walk.chunks, limit)

    def _start(self, seeds: Mapping[int, float]) -> Floats:
        start = np.zeros(self.entities)
        for entity, weight in seeds.items():
            if entity < self.entities:
                start[entity] = weight
        return start

    def _edges_of_entities(self, wanted: Numbers) -> Numbers:
        starts, by_entity = self._by_entity
        return by_entity[_ranges(starts, wanted)]

    def _toward_chunks(self, at: Numbers, values: Floats) -> Floats:
        flow = self._rare[at] * values[self._entity[at]]
        return _summed(self._chunk[at], flow, self._size) / self._lengths

    def _ranking(self, scores: Floats, limit: int) -> Ranking:
        found = np.flatnonzero(scores)
        return best(self.numbers[found], np.round(scores[found], 12), limit)


class Graph:
    """The newest view of the graph, made anew when it is asked for after a change."""

    def __init__(self, packed: dict[int, bytes], common: set[int]) -> None:
        self._packed = packed
        self._common = common
        self._changing = threading.Lock()
        self._view: View | None = None

    def update(self, packed: Mapping[int, bytes | None], common: Mapping[int, bool]) -> None:
        """Take over what a transaction changed."""
        with self._changing:
            for chunk, data in packed.items():
                if data is None:
                    self._packed.pop(chunk, None)
                else:
                    self._packed[chunk] = data
            self._common.difference_update(common)
            self._common.update(number for number, verdict in common.items() if verdict)
            self._view = None

    def view(self) -> View:
        """Return the graph as it is now."""
        view = self._view
        if view is None:
            with self._changing:
                view = self._view = self._view or View(self._packed, self._common)
        return view


def _counts(
    role: NDArray[np.uint16], entity: Numbers, common: set[int], entities: int
) -> NDArray[np.bool_]:
    """Tell which edges are any: all but those found by a spelling that proves nothing here."""
    is_common = np.zeros(entities, dtype=np.bool_)
    numbers = np.fromiter(common, dtype=np.int64, count=len(common))
    is_common[numbers[numbers < entities]] = True
    proven = (role & (Role.CERTAIN | Role.TITLE | Role.LINKED)) > 0
    return np.asarray(proven | ~is_common[entity])


def _weights(count: NDArray[np.uint16], role: NDArray[np.uint16]) -> Floats:
    """Return what an edge weighs: the logarithm tames a name that is said all the time."""
    times = count.astype(np.float64)
    times[(role & Role.LINKED) > 0] = np.maximum(times[(role & Role.LINKED) > 0], 1)
    own_title = (role & Role.TITLE) > 0
    times[own_title] += _TITLE_MENTIONS
    weights = 1 + np.log(np.maximum(times, 1))
    weights[own_title] *= _TITLE_WEIGHT
    return weights


def _length(values: Floats) -> float:
    """Return the Euclidean length; `linalg.norm` would wake a pool of threads for it."""
    return float(np.sqrt(np.square(values).sum()))


def _summed(places: Numbers, values: Floats, count: int) -> Floats:
    """Return an array of so many sums, each of the values at one place."""
    return np.asarray(np.bincount(places, values, minlength=count), dtype=np.float64)


def _ranges(starts: Numbers, wanted: Numbers) -> Numbers:
    """Return all positions from `starts[i]` to `starts[i + 1]` for each wanted i, in order."""
    first = starts[wanted]
    lengths = starts[wanted + 1] - first
    shifts = (
        np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        if len(wanted)
        else first
    )
    return np.asarray(shifts + np.arange(len(shifts)))
