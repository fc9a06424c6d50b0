"""Where in an index's arrays a chunk lies, while chunks come and go.

An index is arrays with a row per place. The first rows are those it was loaded with, in order of
their chunk numbers; later ones are appended. A chunk that changes gets a new place, and its old one
is dead. What was appended never changes, so that whoever holds a snapshot needs no lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

Kind = TypeVar("Kind", bound=np.generic)

_FEWEST = 64  # rows to make room for at first


class Growing(Generic[Kind]):
    """An array that is appended to; a slice of it that was handed out stays as it is."""

    def __init__(self, values: NDArray[Kind]) -> None:
        self._data = values
        self._used = len(values)

    def __len__(self) -> int:
        return self._used

    def extend(self, values: NDArray[Kind]) -> None:
        """Append rows."""
        used = self._used + len(values)
        if used > len(self._data) or not self._data.flags.writeable:
            room = (_FEWEST + used + used // 2, *self._data.shape[1:])
            data = np.empty(room, dtype=self._data.dtype)
            data[: self._used] = self._data[: self._used]
            self._data = data
        self._data[self._used : used] = values
        self._used = used

    def rows(self) -> NDArray[Kind]:
        """Return what it holds now."""
        return self._data[: self._used]


@dataclass(frozen=True)
class Placed:
    """Which chunk lies at each place, and which places are alive; the first `sorted` in order."""

    numbers: Numbers
    alive: NDArray[np.bool_]
    sorted: int

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def living(self) -> int:
        """How many chunks there are."""
        return int(np.count_nonzero(self.alive))

    @cached_property
    def _later(self) -> dict[int, int]:
        """The living places of chunks that were appended."""
        places = np.flatnonzero(self.alive[self.sorted :]) + self.sorted
        return dict(zip(self.numbers[places].tolist(), places.tolist(), strict=True))

    def of(self, chunks: Iterable[int]) -> dict[int, int]:
        """Return the places of those of the chunks that are here."""
        wanted = np.fromiter(chunks, dtype=np.int64)
        first = np.searchsorted(self.numbers[: self.sorted], wanted).tolist()
        found = {}
        for chunk, place in zip(wanted.tolist(), first, strict=True):
            if place < self.sorted and self.numbers[place] == chunk and self.alive[place]:
                found[chunk] = place
            elif chunk in self._later:
                found[chunk] = self._later[chunk]
        return found


class Places:
    """The places of an index that is being kept up; its owner sees to one writer at a time."""

    def __init__(self, numbers: Numbers) -> None:
        """Begin with these chunks, which are in order."""
        self._numbers = Growing(numbers)
        self._alive = np.ones(len(numbers), dtype=np.bool_)
        self._sorted = len(numbers)
        self._later: dict[int, int] = {}

    def change(self, gone: Iterable[int], coming: Iterable[int]) -> None:
        """Give up the places of some chunks, then append places for others in their order."""
        dead = [place for chunk in gone if (place := self._give_up(chunk)) >= 0]
        fresh = np.fromiter(coming, dtype=np.int64)
        first = len(self._numbers)
        self._numbers.extend(fresh)
        self._later.update(zip(fresh.tolist(), range(first, first + len(fresh)), strict=True))
        alive = np.ones(first + len(fresh), dtype=np.bool_)
        alive[:first] = self._alive
        alive[dead] = False
        self._alive = alive

    def snapshot(self) -> Placed:
        """Return the places as they are now."""
        return Placed(self._numbers.rows(), self._alive, self._sorted)

    def _give_up(self, chunk: int) -> int:
        """Return the place that a chunk has had, or -1 if it had none."""
        if chunk in self._later:
            return self._later.pop(chunk)
        numbers = self._numbers.rows()[: self._sorted]
        place = int(np.searchsorted(numbers, chunk))
        is_there = place < self._sorted and numbers[place] == chunk and self._alive[place]
        return place if is_there else -1


def ranges(starts: Numbers, wanted: Numbers) -> Numbers:
    """Return all positions from `starts[i]` to `starts[i + 1]` for each wanted i, in order."""
    if not len(wanted):
        return np.empty(0, dtype=np.int64)
    first = starts[wanted]
    lengths = starts[wanted + 1] - first
    ends = np.cumsum(lengths)
    shifts = np.repeat(first - ends + lengths, lengths)
    shifts += np.arange(len(shifts))
    return np.asarray(shifts, dtype=np.int64)
