"""Signal 3: chunks and the entities they name, as a graph in memory.

Two rankings come from the names in a question. *Entities* (one hop): chunks that name them, then
chunks that share rare names with the best of those. *Relations* (personalised PageRank): where a
walker ends up who starts at these names, goes from name to chunk to name, and starts over now and
then. Rare names count more in both, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine.edges import Role
from dsh_lightrag.engine.model import Ranking
from dsh_lightrag.engine.places import ranges
from dsh_lightrag.engine.vectors import best

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dsh_lightrag.engine.places import Placed

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

_FIRST_CHUNKS = 20  # the chunks whose names make the second step of one hop
# More steps, or following a walker anywhere, changed no answer that was measured; this is seven
# times faster and keeps a name that half the collection has from touching all of it.
_STEPS = 12
_LEAST = 1e-4  # a walker less likely than this at a place is not followed further
_MANY = 4  # to pick one edge in so many takes as long as to go over all
_TITLE_MENTIONS = 2  # an own title is as good as two more mentions,
_TITLE_WEIGHT = 3  # and then weighs three times: a walker finds from a name to its own passage


@dataclass(frozen=True)
class Walk:
    """How likely a walker is at each chunk and at each entity."""

    chunks: Floats
    entities: Floats


class ByEntity:
    """Edges in order of their entities."""

    def __init__(self, entity: Numbers, first: int = 0) -> None:
        """Order these edges, of which the one at 0 has the number `first`."""
        self.entities = int(entity.max()) + 1 if len(entity) else 0
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(entity))])
        # One sort of numbers made of entity and edge is several times faster than an argsort.
        keyed = (entity << 32) | np.arange(first, first + len(entity))
        keyed.sort()
        self._edges = keyed & 0xFFFFFFFF

    def of(self, wanted: Numbers) -> Numbers:
        """Return the edges of some entities."""
        if not self.entities:
            return self._edges
        return self._edges[ranges(self._starts, wanted[wanted < self.entities])]

    def of_one(self, entity: int) -> Numbers:
        """Return the edges of one entity."""
        if entity >= self.entities:
            return self._edges[:0]
        return self._edges[self._starts[entity] : self._starts[entity + 1]]


@dataclass(frozen=True)
class View:
    """The graph at one moment; it never changes, so that a search needs no lock.

    Attributes:
        placed: the chunks.
        starts: where each chunk's edges begin; they lie in order.
        chunk: for each edge the place of its chunk.
        entity: for each edge the number of its entity.
        weight: for each edge what it weighs.
        proven: for each edge whether it counts even if its entity is a common word.
        common: for each entity whether it is a common word.
        by_entity: the edges by entity, in parts.
    """

    placed: Placed
    starts: Numbers
    chunk: Numbers
    entity: Numbers
    weight: Floats
    proven: NDArray[np.bool_]
    common: NDArray[np.bool_]
    by_entity: tuple[ByEntity, ...]

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return self.placed.living

    @property
    def entities(self) -> int:
        """One more than the highest number of an entity that has an edge."""
        return len(self.common)

    @cached_property
    def _counts(self) -> NDArray[np.bool_]:
        """Tell which edges are any: not the dead, nor spellings that prove nothing here."""
        counts = ~self.common[self.entity]
        counts |= self.proven
        counts &= self.placed.alive[self.chunk]
        return np.asarray(counts)

    @cached_property
    def mentions(self) -> Numbers:
        """In how many chunks each entity is named."""
        return np.bincount(self.entity[self._counts], minlength=self.entities)

    @cached_property
    def rarity(self) -> Floats:
        """The inverse document frequency of each entity, as BM25 has it."""
        without = self.chunks - self.mentions
        return np.asarray(np.log(1 + (without + 0.5) / (self.mentions + 0.5)), dtype=np.float64)

    @cached_property
    def _counted(self) -> Floats:
        """Each edge's weight, 0 for those that do not count."""
        return np.asarray(self.weight * self._counts)

    @cached_property
    def _rare(self) -> Floats:
        """Each edge's weight times the rarity of its entity."""
        return np.asarray(self._counted * self.rarity[self.entity])

    @cached_property
    def _lengths(self) -> Floats:
        """The Euclidean length of each chunk's edges."""
        return np.sqrt(_summed(self.chunk, self._rare**2, len(self.placed))) + 1e-6

    @cached_property
    def _of_chunk(self) -> Floats:
        """What the edges of each chunk weigh together: a walker leaves along each by its share."""
        return np.maximum(_summed(self.chunk, self._rare, len(self.placed)), 1e-12)

    @cached_property
    def _of_entity(self) -> Floats:
        """The same for entities, whose rarity is in none of the shares."""
        return np.maximum(_summed(self.entity, self._counted, self.entities), 1e-12)

    def chunks_of(self, entity: int) -> list[int]:
        """Return the numbers of the chunks that name an entity, in order."""
        at = np.concatenate([part.of_one(entity) for part in self.by_entity])
        numbers: list[int] = np.sort(self.placed.numbers[self.chunk[at[self._counts[at]]]]).tolist()
        return numbers

    def chunks_of_both(self, one: int, other: int) -> list[int]:
        """Return the numbers of the chunks that name both entities."""
        second = set(self.chunks_of(other))
        return [chunk for chunk in self.chunks_of(one) if chunk in second]

    def entities_of(self, chunks: list[int]) -> dict[int, dict[int, float]]:
        """Return for each chunk number its entities with their weight there."""
        found: dict[int, dict[int, float]] = {}
        for chunk, place in self.placed.of(chunks).items():
            at = slice(self.starts[place], self.starts[place + 1])
            pairs = zip(self.entity[at].tolist(), self._rare[at].tolist(), strict=True)
            found[chunk] = {entity: weight for entity, weight in pairs if weight}
        return found

    def one_hop(self, seeds: Mapping[int, float], limit: int) -> Ranking:
        """Rank chunks by the rare names they share with the seeds, or with their best chunks."""
        start = self._start(seeds)
        if not start.any():
            return Ranking()
        first = self._toward_chunks(start / _length(start))
        found = np.flatnonzero(first)
        top = found[np.lexsort((self.placed.numbers[found], -first[found]))][:_FIRST_CHUNKS]
        at = ranges(self.starts, top)
        flow = first[self.chunk[at]] * self._rare[at] / self._lengths[self.chunk[at]]
        second = _summed(self.entity[at], flow, self.entities)
        second[start > 0] = 0
        if second.any():
            second /= _length(second)
        return self._ranking(first + self._toward_chunks(second), limit)

    def walk(self, seeds: Mapping[int, float], damping: float) -> Walk:
        """Follow the walker from the seeds until next to nothing of it is under way."""
        at_entity = self._start(seeds)
        at_entity /= max(at_entity.sum(), 1e-12)
        chunks, entities = np.zeros(len(self.placed)), np.zeros(self.entities)
        for _ in range(_STEPS // 2):
            entities += (1 - damping) * at_entity
            at_chunk = self._out_of_entities(np.where(at_entity > _LEAST, damping * at_entity, 0))
            chunks += (1 - damping) * at_chunk
            at_entity = self._out_of_chunks(np.where(at_chunk > _LEAST, damping * at_chunk, 0))
            if not at_entity.any():
                break
        return Walk(chunks, entities)

    def _out_of_entities(self, walkers: Floats) -> Floats:
        """Return how many walkers arrive at each chunk from the entities."""
        leaving = walkers / self._of_entity
        at = self._edges_of_entities(np.flatnonzero(walkers))
        if at is None:
            return _summed(self.chunk, leaving[self.entity] * self._counted, len(self.placed))
        flow = leaving[self.entity[at]] * self._counted[at]
        return _summed(self.chunk[at], flow, len(self.placed))

    def _out_of_chunks(self, walkers: Floats) -> Floats:
        """Return how many walkers arrive at each entity from the chunks."""
        leaving = walkers / self._of_chunk
        wanted = np.flatnonzero(walkers)
        edges = int((self.starts[wanted + 1] - self.starts[wanted]).sum())
        if edges * _MANY > len(self.entity):
            return _summed(self.entity, leaving[self.chunk] * self._rare, self.entities)
        at = ranges(self.starts, wanted)
        flow = leaving[self.chunk[at]] * self._rare[at]
        return _summed(self.entity[at], flow, self.entities)

    def ranked(self, walk: Walk, limit: int) -> Ranking:
        """Rank chunks by where a walk ends."""
        return self._ranking(walk.chunks, limit)

    def _start(self, seeds: Mapping[int, float]) -> Floats:
        start = np.zeros(self.entities)
        for entity, weight in seeds.items():
            if entity < self.entities:
                start[entity] = weight
        return start

    def _edges_of_entities(self, wanted: Numbers) -> Numbers | None:
        """Return the edges of some entities; None if they are so many that all are as quick."""
        if int(self.mentions[wanted].sum()) * _MANY > len(self.entity):
            return None
        return np.concatenate([part.of(wanted) for part in self.by_entity])

    def _toward_chunks(self, values: Floats) -> Floats:
        """Return the product of each chunk's rare names with these values."""
        at = self._edges_of_entities(np.flatnonzero(values))
        if at is None:
            flow = self._rare * values[self.entity]
            return _summed(self.chunk, flow, len(self.placed)) / self._lengths
        flow = self._rare[at] * values[self.entity[at]]
        return _summed(self.chunk[at], flow, len(self.placed)) / self._lengths

    def _ranking(self, scores: Floats, limit: int) -> Ranking:
        found = np.flatnonzero(scores)
        return best(self.placed.numbers[found], np.round(scores[found], 12), limit)


def weights(count: NDArray[np.uint16], role: NDArray[np.uint16]) -> Floats:
    """Return what an edge weighs: the logarithm tames a name that is said all the time."""
    times = count.astype(np.float64)
    times[(role & Role.LINKED) > 0] = np.maximum(times[(role & Role.LINKED) > 0], 1)
    own_title = (role & Role.TITLE) > 0
    times[own_title] += _TITLE_MENTIONS
    found = 1 + np.log(np.maximum(times, 1))
    found[own_title] *= _TITLE_WEIGHT
    return found


def _length(values: Floats) -> float:
    """Return the Euclidean length; `linalg.norm` would wake a pool of threads for it."""
    return float(np.sqrt(np.square(values).sum()))


def _summed(places: Numbers, values: Floats, count: int) -> Floats:
    """Return an array of so many sums, each of the values at one place."""
    return np.asarray(np.bincount(places, values, minlength=count), dtype=np.float64)
