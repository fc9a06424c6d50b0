"""What every route asks for: the gateway's parts, and a caller whose scopes cover the route."""

import uuid
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

BaseId = Annotated[uuid.UUID, Path(alias="baseId", description="The knowledge base's id.")]
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


async def seen_base(desk: Desk, request: Request, caller: Caller, base_id: uuid.UUID
) -> KnowledgeBase:
    """Return a base that is there for the caller.

    Raises:
        LightRagError: `not-found`, whether it is another's or nowhere.
    """
    use_of(request.scope).base_id = base_id
    async with desk.database.sessions() as session:
        base = await get_base(session, caller.team_id, base_id)
    if not caller.may_see(base):
        raise no_such_base()
    return base


Parts = Annotated[Desk, Depends(desk_of)]
