"""Routes of session tokens: issued for a worker, revoked before their time."""

import uuid
from typing import Annotated

from fastapi import APIRouter, Path

from dsh_lightrag.gateway.api.access import NoFields, Parts, permitted
from dsh_lightrag.gateway.api.shapes import NewToken, Token
from dsh_lightrag.gateway.caller import Caller, Scope

router = APIRouter(prefix="/session-tokens", tags=["session tokens"])
Manager = Annotated[Caller, permitted(Scope.MANAGE)]
TokenId = Annotated[uuid.UUID, Path(description="The token's id.")]


@router.post("", operation_id="issueSessionToken", status_code=201)
async def issue(desk: Parts, caller: Manager, _query: NoFields, body: NewToken) -> Token:
    """Issue a short-lived token for one worker; it is shown this once."""
    issued = await desk.identities.issue_token(
        caller,
        base_ids=body.base_ids,
        agent_id=body.agent_id,
        session_id=body.session_id,
        seconds=body.seconds,
        scopes=body.scopes,
    )
    return Token.of(issued)


@router.delete("/{token_id}", operation_id="revokeSessionToken", status_code=204)
async def revoke(desk: Parts, caller: Manager, _query: NoFields, token_id: TokenId) -> None:
    """Revoke a token at once."""
    await desk.identities.revoke_token(caller, token_id)
