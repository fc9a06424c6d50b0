"""An edge of the graph: one chunk names one entity, so often and in these roles.

A chunk's edges are packed into one value, eight bytes each, so that loading a whole graph is one
pass over the chunks and no index on edges is needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag

import numpy as np

_FORMAT = struct.Struct("<IHH")
_MOST = 0xFFFF
BYTES = _FORMAT.size
DTYPE = np.dtype([("entity", "<u4"), ("count", "<u2"), ("role", "<u2")])


class Role(IntFlag):
    """Why a chunk has an edge to an entity; no role left means no edge."""

    NAMED = 1  # found by its spelling: counts only while the collection writes it as a name
    CERTAIN = 2  # found by an extractor that needs no such proof
    TITLE = 4  # the title of the chunk's own document
    LINKED = 8  # the title of some document, mentioned here


@dataclass(frozen=True, slots=True)
class Edge:
    """One chunk's edge to the entity with this number."""

    entity: int
    count: int
    role: Role


def pack(edges: list[Edge]) -> bytes:
    """Return the edges as one value."""
    return b"".join(
        _FORMAT.pack(edge.entity, min(edge.count, _MOST), int(edge.role)) for edge in edges
    )


def unpack(packed: bytes) -> list[Edge]:
    """Return the edges that `pack` made one value of."""
    return [Edge(entity, count, Role(role)) for entity, count, role in _FORMAT.iter_unpack(packed)]


def joined(edges: list[Edge], edge: Edge) -> list[Edge]:
    """Return the edges with one more, added to an edge to the same entity if there is one."""
    for index, before in enumerate(edges):
        if before.entity == edge.entity:
            both = Edge(edge.entity, before.count + edge.count, before.role | edge.role)
            return [*edges[:index], both, *edges[index + 1 :]]
    return [*edges, edge]
