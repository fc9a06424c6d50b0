"""Signal 1: the chunks nearest to the question's vector, found exactly, in memory.

The rows live in the base; this is a copy of them, loaded or mapped when the base is opened and kept
up with every commit. A search sees the rows as they were when it began and blocks nobody.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from dsh_lightrag.engine.model import Ranking
from dsh_lightrag.engine.places import Growing, Places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from dsh_lightrag.engine.sidecar import Arrays

    Matrix = NDArray[np.float32]

# Equal to this many digits is equal: the last bits depend on where in memory a row lies.
_DIGITS = 6
_MOSTLY = 2  # rows are put together anew when more than one in so many is dead


class Vectors:
    """Every chunk's vector by chunk number."""

    def __init__(self, dimension: int) -> None:
        """Begin with none."""
        self.dimension = dimension
        self._updating = threading.Lock()
        self._begin(np.empty(0, dtype=np.int64), np.empty((0, dimension), dtype=np.float32))

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Vectors:
        """Return the index that `arrays` were taken from; the rows stay where they are."""
        index = cls(arrays["rows"].shape[1])
        index._begin(arrays["numbers"], arrays["rows"])
        return index

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all rows in order of their chunks, as `of_arrays` takes them."""
        parts, placed = self._state
        living = np.flatnonzero(placed.alive)
        living = living[np.argsort(placed.numbers[living])]
        rows = np.concatenate(parts) if len(parts[1]) else parts[0]
        is_all = len(living) == len(rows) and np.array_equal(living, np.arange(len(rows)))
        return {"numbers": placed.numbers[living], "rows": rows if is_all else rows[living]}

    def __len__(self) -> int:
        return self._state[1].living

    def update(self, change: Mapping[int, bytes | None]) -> None:
        """Take rows in (as stored), or out where the value is None."""
        if not change:
            return
        with self._updating:
            coming = {chunk: data for chunk, data in change.items() if data is not None}
            self._places.change(change, coming)
            self._tail.extend(decoded(coming.values(), self.dimension))
            self._publish()
            if len(self) * _MOSTLY < len(self._state[1]):
                arrays = self.arrays()
                self._begin(arrays["numbers"], arrays["rows"])

    def search(self, vector: Matrix, limit: int) -> Ranking:
        """Rank chunks by cosine, best first; equal ones in order of insertion."""
        parts, placed = self._state
        # Not `@`: its pool of threads costs far more than one core needs for this, and 32
        # questions at once would fight over it.
        products = [np.vecdot(part, vector) for part in parts if len(part)]
        scores = products[0] if len(products) == 1 else np.concatenate([vector[:0], *products])
        if placed.living < len(placed):
            scores[~placed.alive] = -np.inf
        chosen = _highest(scores, limit, 2 * 10.0**-_DIGITS)  # what may tie once it is rounded
        return best(placed.numbers[chosen], np.round(scores[chosen], _DIGITS), limit)

    def _begin(self, numbers: NDArray[np.int64], rows: Matrix) -> None:
        self._places = Places(numbers)
        self._base = rows
        self._tail = Growing(np.empty((0, self.dimension), dtype=np.float32))
        self._publish()

    def _publish(self) -> None:
        """Let searches see the rows as they are now."""
        self._state = ((self._base, self._tail.rows()), self._places.snapshot())


def best(numbers: NDArray[np.int64], scores: NDArray[np.floating], limit: int) -> Ranking:
    """Return the `limit` highest finite scores; equal ones by number, lowest first."""
    chosen = _highest(scores, limit)
    order = chosen[np.lexsort((numbers[chosen], -scores[chosen]))][:limit]
    order = order[np.isfinite(scores[order])]
    return Ranking(tuple(numbers[order].tolist()), tuple(scores[order].tolist()))


def _highest(scores: NDArray[np.floating], limit: int, slack: float = 0.0) -> NDArray[np.int64]:
    """Return the places of the `limit` highest scores, and of those within `slack` of the last."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    floor = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= floor - slack)


def encoded(row: Matrix) -> bytes:
    """Return a row as it is stored: half the precision, far below what a model means."""
    return row.astype("<f2").tobytes()


def decoded(stored: Iterable[bytes], dimension: int) -> Matrix:
    """Return stored rows as one matrix."""
    data = b"".join(stored)
    return np.frombuffer(data, dtype="<f2").reshape(-1, dimension).astype(np.float32)
