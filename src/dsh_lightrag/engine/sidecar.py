"""A file of arrays beside a base: what its indexes look like at one change, mapped, not read.

It holds nothing that the base does not. Whatever is wrong with it (absent, cut short, of another
version, of another base) is the same as not having it: the indexes are made from the tables.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine.change import Stamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

VERSION = 1
_HEAD = struct.Struct("<8sIQI")  # magic, version, bytes and checksum of the description
_MAGIC = b"DSLRSIDE"
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The arrays by name, and the change of the base that they are up to."""

    stamp: Stamp
    arrays: Arrays


def path_of(base: Path) -> Path:
    """Return the file beside a base."""
    return base.with_name(f"{base.name}.index")


def save(path: Path, sidecar: Sidecar) -> None:
    """Write the file anew, whole or not at all."""
    described, offset = [], 0
    for name, array in sidecar.arrays.items():
        described.append([name, array.dtype.str, list(array.shape), offset])
        offset += _padded(array.nbytes)
    description = json.dumps(
        {"change": sidecar.stamp.change, "token": sidecar.stamp.token, "arrays": described}
    ).encode()
    unfinished = path.with_name(f"{path.name}.new")
    try:
        with unfinished.open("wb") as file:
            file.write(_HEAD.pack(_MAGIC, VERSION, len(description), zlib.crc32(description)))
            file.write(description)
            file.write(bytes(_body(len(description)) - file.tell()))
            for array in sidecar.arrays.values():
                file.write(np.ascontiguousarray(array).data)
                file.write(bytes(_padded(array.nbytes) - array.nbytes))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        # A full disk costs the sidecar, nothing else.
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def load(path: Path) -> Sidecar | None:
    """Return what the file holds, mapped into memory, or None if it is none of ours."""
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, version, length, checksum = _HEAD.unpack_from(mapped)
        description = mapped[_HEAD.size : _HEAD.size + length]
        if (magic, version, checksum) != (_MAGIC, VERSION, zlib.crc32(description)):
            return None
        told = json.loads(description)
        arrays = {
            name: _array(mapped, np.dtype(kind), shape, _body(length) + offset)
            for name, kind, shape, offset in told["arrays"]
        }
        return Sidecar(Stamp(told["change"], told["token"]), arrays)
    except (OSError, ValueError, struct.error):  # absent, empty, or shorter than it says
        return None


def _array(mapped: mmap.mmap, kind: np.dtype[Any], shape: list[int], offset: int) -> NDArray[Any]:
    count = int(np.prod(shape))
    if not count:
        return np.empty(shape, dtype=kind)
    return np.frombuffer(mapped, kind, count, offset).reshape(shape)


def _body(description: int) -> int:
    """Return where the arrays begin behind a description of so many bytes."""
    return _padded(_HEAD.size + description)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
