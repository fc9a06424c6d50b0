"""The engine's graph as nodes and edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_lightrag.server.backend import Edge, Node, Subgraph
from dsh_lightrag.server.embedded.evidence import chunk_ids, provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_lightrag.engine import Engine, Entity, Neighbourhood, Place, Relation

WHOLE = "*"
_DEEPEST = 10


def subgraph(engine: Engine, label: str, depth: int, most: int) -> Subgraph:
    """Return what lies around a name, or for `*` the names that stand in most chunks."""
    found: Neighbourhood
    if label == WHOLE:
        found = engine.most_named(most)
    else:
        found = engine.around(label, min(depth, _DEEPEST), most)
    places = engine.places(chunk_ids(found.entities, found.relations))
    return Subgraph(
        nodes=tuple(_node(entity, places) for entity in found.entities),
        edges=tuple(_edge(relation, places) for relation in found.relations),
        is_truncated=found.truncated,
    )


def _node(entity: Entity, places: Mapping[str, Place]) -> Node:
    source = provenance(entity.chunk_ids, places)
    return Node(
        id=entity.name,
        entity_type=entity.type,
        description=entity.description,
        source_id=source.source_id,
        file_path=source.file_path,
    )


def _edge(relation: Relation, places: Mapping[str, Place]) -> Edge:
    source = provenance(relation.chunk_ids, places)
    return Edge(
        source=relation.source,
        target=relation.target,
        weight=relation.weight,
        description=relation.description,
        keywords=relation.keywords,
        source_id=source.source_id,
        file_path=source.file_path,
    )
