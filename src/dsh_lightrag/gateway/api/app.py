"""The application: routes inside, and around them what every request goes through.

From outside in: Host, Origin and size (`guard`), no workspace named, the audit, who calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route

from dsh_lightrag.gateway.api import bases, documents, probes, sessions
from dsh_lightrag.gateway.api.layers import Audited, Authenticated
from dsh_lightrag.gateway.api.naming import NoWorkspaceNamed
from dsh_lightrag.gateway.api.problems import MEDIA_TYPE, Problem, guard_reply, install
from dsh_lightrag.gateway.api.shapes import MAX_TEXT_CHARS, MAX_UPLOAD_BYTES
from dsh_lightrag.gateway.mcp import KnowledgeMcp
from dsh_lightrag.guard import Entry, Guard
from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from fastapi.routing import APIRoute
    from starlette.types import ASGIApp

    from dsh_lightrag.gateway.desk import Desk

MCP_PATH = "/mcp"
# Half as much again as the longest text in ASCII: one in wider letters has to be shorter, or else
# a body could take six times the memory of its text.
LARGER = (
    (r"/knowledge-bases/[^/]+/documents/text", 6 * MAX_TEXT_CHARS // 4),
    (r"/knowledge-bases/[^/]+/documents/upload", MAX_UPLOAD_BYTES),
)
TITLE = "DSH LightRAG knowledge gateway"
ABOUT = (
    "Many teams' knowledge bases behind one service. Every failure is a problem document with a "
    "code of a closed set. A workspace is never a parameter."
)


def routes_of(desk: Desk | None) -> FastAPI:
    """Return the routes; without a desk only to be described."""
    app = FastAPI(
        title=TITLE,
        description=ABOUT,
        version=__version__,
        openapi_url=None,  # the document is in the repository; the service tells nobody its map
        generate_unique_id_function=_operation_id,
        responses={"default": {"model": Problem, "content": {MEDIA_TYPE: {}}}},
    )
    app.state.desk = desk
    install(app)
    for router in (bases.router, bases.one, documents.router, sessions.router, probes.router):
        app.include_router(router)
    return app


def _operation_id(route: APIRoute) -> str:
    """Return the id that a route has to give itself."""
    if not route.operation_id:
        raise RuntimeError(f"{route.path} has no operationId")
    return route.operation_id


def app_of(desk: Desk, entry: Entry | None = None) -> ASGIApp:
    """Return the ASGI application over a desk, which stays with whoever opened it.

    Args:
        desk: the gateway's parts.
        entry: which hosts and origins come in; loopback alone when absent. Its sizes are ours.
    """
    knowledge = KnowledgeMcp(desk)
    app = routes_of(desk)
    app.router.lifespan_context = lambda _app: knowledge.running()
    # No GET: without sessions its stream would carry nothing, never end, and outlive its token.
    app.router.routes.append(Route(MCP_PATH, knowledge, methods=["POST"]))
    entry = entry or Entry()
    entry = Entry(hosts=entry.hosts, origins=entry.origins, larger=LARGER)
    inner = Audited(Authenticated(app, desk.identities), desk.identities)
    return Guard(NoWorkspaceNamed(inner), entry, guard_reply)
