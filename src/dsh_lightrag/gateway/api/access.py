"""What every route asks for: the gateway's parts, and a caller whose scopes cover the route."""

import uuid
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.security import HTTPBearer

from dsh_lightrag.gateway.api.shapes import Nothing
from dsh_lightrag.gateway.api.use import use_of
from dsh_lightrag.gateway.bases import get_base, no_such_base
from dsh_lightrag.gateway.caller import Caller, Scope
from dsh_lightrag.gateway.desk import Desk
from dsh_lightrag.gateway.tables import KnowledgeBase

# Told in the OpenAPI document; the layer around the application verifies it.
_BEARER = HTTPBearer(auto_error=False, description="An API key, or a worker's session token.")

BaseId = Annotated[uuid.UUID, Path(description="The knowledge base's id.")]
NoFields = Annotated[Nothing, Query()]


def desk_of(request: Request) -> Desk:
    """Return the gateway's parts."""
    desk: Desk = request.app.state.desk
    return desk


def permitted(scope: Scope) -> Any:
    """Return the dependency that lets a caller of a scope through.

    It also tells the audit which operation, on which base.
    """

    async def caller_with(request: Request, _told: Annotated[Any, Depends(_BEARER)]) -> Caller:
        use = use_of(request.scope)
        use.operation = request.scope["route"].operation_id
        caller = use.caller
        if caller is None:
            raise RuntimeError("a route without the layer that proves who calls")
        caller.need(scope)
        return caller

    return Depends(caller_with)


Parts = Annotated[Desk, Depends(desk_of)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a route works: a base that is there for its caller."""

    desk: Desk
    caller: Caller
    base: KnowledgeBase


def on_base(scope: Scope) -> Any:
    """Return the dependency that finds the path's base for a caller of a scope.

    It raises `not-found`, whether the base is another's or nowhere.
    """

    async def place(
        desk: Parts, request: Request, caller: Annotated[Caller, permitted(scope)], base_id: BaseId
    ) -> Place:
        use_of(request.scope).base_id = base_id
        async with desk.database.sessions() as session:
            base = await get_base(session, caller.team_id, base_id)
        if not caller.may_see(base):
            raise no_such_base()
        return Place(desk, caller, base)

    return Depends(place)


Viewed = Annotated[Place, on_base(Scope.DOCUMENTS)]
Fed = Annotated[Place, on_base(Scope.INGEST)]
Managed = Annotated[Place, on_base(Scope.MANAGE)]
