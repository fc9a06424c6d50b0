"""The graph kept up to date: edges appended as chunks come, put in order when many have come."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from dsh_lightrag.engine import edges
from dsh_lightrag.engine.edges import Role
from dsh_lightrag.engine.graph import ByEntity, View, weights
from dsh_lightrag.engine.places import Growing, Places, ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from dsh_lightrag.engine.sidecar import Arrays

# Edges that were appended cost every view made after them; from this share on, all are put in
# order anew. Below so many edges that is done at once, for it takes less than two milliseconds.
_SHARE = 16
_FEW_EDGES = 8_000


class Graph:
    """The newest view of the graph, made when it is asked for after a change."""

    def __init__(
        self, packed: Mapping[int, bytes], common: Iterable[int], few: int = _FEW_EDGES
    ) -> None:
        """Begin with the edges of chunks, in order of their numbers, and the common entities."""
        lengths = np.fromiter((len(data) // edges.BYTES for data in packed.values()), np.int64)
        raw = np.frombuffer(b"".join(packed.values()), edges.DTYPE)
        self._begin(np.fromiter(packed, np.int64), _starts(lengths), raw)
        self._is_common = _flags(np.zeros(0, dtype=np.bool_), dict.fromkeys(common, True))
        self._changing = threading.Lock()
        self._view: View | None = None
        self._few = few

    @classmethod
    def of_arrays(cls, arrays: Arrays, common: Iterable[int]) -> Graph:
        """Return the graph that `arrays` were taken from."""
        graph = cls({}, common)
        graph._begin(arrays["numbers"], arrays["starts"], arrays["edges"].view(edges.DTYPE))
        return graph

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all living edges in order, as `of_arrays` takes them."""
        with self._changing:
            numbers, starts, raw = self._in_order()
        return {"numbers": numbers, "starts": starts, "edges": raw.view("<u8")}

    def update(self, packed: Mapping[int, bytes | None], common: Mapping[int, bool]) -> None:
        """Take over what a transaction changed."""
        if not packed and not common:
            return
        with self._changing:
            coming = {chunk: data for chunk, data in packed.items() if data is not None}
            self._places.change(packed, coming)
            lengths = [len(data) // edges.BYTES for data in coming.values()]
            first = len(self._starts) - 1
            self._starts.extend(len(self._raw) + np.cumsum(lengths, dtype=np.int64))
            self._append(
                np.frombuffer(b"".join(coming.values()), edges.DTYPE),
                np.repeat(np.arange(first, first + len(coming)), lengths),
            )
            self._is_common = _flags(self._is_common, common)
            self._view = None

    def view(self) -> View:
        """Return the graph as it is now."""
        view = self._view
        if view is None:
            with self._changing:
                view = self._view = self._view or self._made()
        return view

    def _begin(
        self, numbers: NDArray[np.int64], starts: NDArray[np.int64], raw: NDArray[np.void]
    ) -> None:
        """Hold these edges, and nothing else."""
        self._places = Places(numbers)
        self._starts = Growing(starts)
        self._raw = Growing(np.empty(0, dtype=edges.DTYPE))
        self._chunk = Growing(np.empty(0, dtype=np.int64))
        self._entity = Growing(np.empty(0, dtype=np.int64))
        self._weight = Growing(np.empty(0, dtype=np.float64))
        self._proven = Growing(np.empty(0, dtype=np.bool_))
        self._append(raw, np.repeat(np.arange(len(numbers)), np.diff(starts)))
        self._ordered = ByEntity(self._entity.rows())
        self._orderly = len(raw)

    def _append(self, raw: NDArray[np.void], chunk: NDArray[np.int64]) -> None:
        self._raw.extend(raw)
        self._chunk.extend(chunk)
        self._entity.extend(raw["entity"].astype(np.int64))
        self._weight.extend(weights(raw["count"], raw["role"]))
        self._proven.extend((raw["role"] & (Role.CERTAIN | Role.TITLE | Role.LINKED)) > 0)

    def _made(self) -> View:
        later = len(self._raw) - self._orderly
        placed = self._places.snapshot()
        is_moved = len(placed) > placed.sorted or placed.living < len(placed)
        if is_moved and (len(self._raw) <= self._few or later * _SHARE > self._orderly):
            self._begin(*self._in_order())
            placed = self._places.snapshot()
        entity = self._entity.rows()
        tail = ByEntity(entity[self._orderly :], self._orderly)
        entities = max(self._ordered.entities, tail.entities)
        common = self._is_common[:entities]
        return View(
            placed=placed,
            starts=self._starts.rows(),
            chunk=self._chunk.rows(),
            entity=entity,
            weight=self._weight.rows(),
            proven=self._proven.rows(),
            common=np.pad(common, (0, entities - len(common))),
            by_entity=(self._ordered, tail),
        )

    def _in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.void]]:
        """Return the numbers of the living chunks, their edges, and where each one's begin."""
        placed = self._places.snapshot()
        living = np.flatnonzero(placed.alive)
        living = living[np.argsort(placed.numbers[living])]
        starts = self._starts.rows()
        raw = self._raw.rows()[ranges(starts, living)]
        return placed.numbers[living], _starts(np.diff(starts)[living]), raw


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def _flags(before: NDArray[np.bool_], change: Mapping[int, bool]) -> NDArray[np.bool_]:
    """Return which entities are common, by number, after some verdicts changed."""
    if not change:
        return before
    flags = np.pad(before, (0, max(0, max(change) + 1 - len(before))))
    flags[list(change)] = list(change.values())
    return np.asarray(flags)
