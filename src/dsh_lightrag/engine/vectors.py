"""Signal 1: the chunks nearest to the question's vector, found exactly, in memory.

The rows live in the base; this is a copy of them, filled when the base is opened and kept up
with every commit. A search sees the rows as they were when it began and blocks nobody.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine.model import Ranking

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

_FEWEST = 256  # rows to make room for at first
# Equal to this many digits is equal: the last bits depend on where in memory a row lies.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class _Rows:
    """The first `used` rows, of which some may be dead; later rows belong to newer states."""

    matrix: NDArray[np.float32]
    numbers: NDArray[np.int64]
    alive: NDArray[np.bool_]
    used: int


class Vectors:
    """Every chunk's vector by chunk number."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._updating = threading.Lock()
        self._places: dict[int, int] = {}
        self._rows = self._with_room(_FEWEST)

    def __len__(self) -> int:
        return len(self._places)

    def update(self, change: Mapping[int, bytes | None]) -> None:
        """Take rows in (as stored), or out where the value is None."""
        if not change:
            return
        with self._updating:
            rows = self._rows
            gone = [self._places.pop(chunk) for chunk in change if chunk in self._places]
            if gone:
                alive = rows.alive.copy()
                alive[gone] = False
                rows = _Rows(rows.matrix, rows.numbers, alive, rows.used)
            coming = {chunk: data for chunk, data in change.items() if data is not None}
            if rows.used + len(coming) > len(rows.numbers):
                rows = self._compacted(rows, len(coming))
            used = rows.used + len(coming)
            rows.matrix[rows.used : used] = decoded(coming.values(), self.dimension)
            rows.numbers[rows.used : used] = list(coming)
            rows.alive[rows.used : used] = True
            self._places.update(zip(coming, range(rows.used, used), strict=True))
            self._rows = _Rows(rows.matrix, rows.numbers, rows.alive, used)

    def search(self, vector: NDArray[np.float32], limit: int) -> Ranking:
        """Rank chunks by cosine, best first; equal ones in order of insertion."""
        rows = self._rows
        alive = rows.alive[: rows.used]
        if not alive.any():
            return Ranking()
        # Not `@`: its pool of threads costs far more than one core needs for this, and 32
        # questions at once would fight over it.
        products = np.einsum("ij,j->i", rows.matrix[: rows.used], vector)
        scores = np.round(products, _DIGITS)
        scores[~alive] = -np.inf
        numbers = rows.numbers[: rows.used]
        return best(numbers, scores, limit)

    def _compacted(self, rows: _Rows, coming: int) -> _Rows:
        """Return the living rows in a new place with room for more."""
        kept = np.flatnonzero(rows.alive[: rows.used])
        fresh = self._with_room(2 * (len(kept) + coming))
        count = len(kept)
        fresh.matrix[:count] = rows.matrix[kept]
        fresh.numbers[:count] = rows.numbers[kept]
        fresh.alive[:count] = True
        self._places = {int(chunk): place for place, chunk in enumerate(fresh.numbers[:count])}
        return _Rows(fresh.matrix, fresh.numbers, fresh.alive, count)

    def _with_room(self, count: int) -> _Rows:
        return _Rows(
            np.empty((count, self.dimension), dtype=np.float32),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.bool_),
            0,
        )


def best(numbers: NDArray[np.int64], scores: NDArray[np.floating], limit: int) -> Ranking:
    """Return the `limit` highest finite scores; equal ones by number, lowest first."""
    chosen = np.flatnonzero(np.isfinite(scores))
    if len(chosen) > limit:
        # Everything that ties with the last place is kept until the numbers decide.
        floor = np.partition(scores[chosen], len(chosen) - limit)[len(chosen) - limit]
        chosen = chosen[scores[chosen] >= floor]
    order = chosen[np.lexsort((numbers[chosen], -scores[chosen]))][:limit]
    return Ranking(tuple(numbers[order].tolist()), tuple(scores[order].tolist()))


def encoded(row: NDArray[np.float32]) -> bytes:
    """Return a row as it is stored: half the precision, far below what a model means."""
    return row.astype("<f2").tobytes()


def decoded(stored: Iterable[bytes], dimension: int) -> NDArray[np.float32]:
    """Return stored rows as one matrix."""
    data = b"".join(stored)
    return np.frombuffer(data, dtype="<f2").reshape(-1, dimension).astype(np.float32)
