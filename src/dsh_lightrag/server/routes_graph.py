"""The routes of the graph: labels, neighbourhoods and whether an entity exists."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from dsh_lightrag.server import replies
from dsh_lightrag.server.services import NEEDS_KEY, Leased

MAX_NODES = 1000

router = APIRouter(tags=["graph"], dependencies=[NEEDS_KEY])


@router.get("/graph/label/list")
async def label_list(backend: Leased) -> list[str]:
    """Return every entity's name."""
    return list(await backend.labels())


@router.get("/graph/label/popular")
async def popular_labels(
    backend: Leased, limit: Annotated[int, Query(ge=1, le=1000)] = 300
) -> list[str]:
    """Return the names with the most relations."""
    return list(await backend.popular_labels(limit))


@router.get("/graph/label/search")
async def search_labels(
    backend: Leased, q: str, limit: Annotated[int, Query(ge=1, le=100)] = 50
) -> list[str]:
    """Return names that contain a text; an empty one is in none."""
    return list(await backend.search_labels(q, limit)) if q else []


@router.get("/graphs")
async def graph(
    backend: Leased,
    label: str,
    max_depth: Annotated[int, Query(ge=1)] = 3,
    max_nodes: Annotated[int, Query(ge=1)] = MAX_NODES,
) -> dict[str, Any]:
    """Return what lies around a name, or the whole graph for `*`, up to 1000 nodes."""
    return replies.graph(await backend.subgraph(label, max_depth, min(max_nodes, MAX_NODES)))


@router.get("/graph/entity/exists")
async def entity_exists(backend: Leased, name: str) -> dict[str, bool]:
    """Tell whether there is an entity of exactly this name."""
    return {"exists": await backend.has_entity(name)}
