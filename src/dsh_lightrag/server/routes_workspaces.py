"""Our own routes: which workspaces there are, making one, removing one."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from dsh_lightrag.server.refusal import RefusalError
from dsh_lightrag.server.services import NEEDS_KEY, ServicesOf
from dsh_lightrag.server.settings import DEFAULT_WORKSPACE
from dsh_lightrag.server.workspaces import checked_name


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def from_here_without_key(request: Request, services: ServicesOf) -> None:
    """Where no key is set, only this machine makes and removes workspaces."""
    client = request.client.host if request.client else ""
    if not services.settings.api_key and not _is_loopback(client):
        raise RefusalError(403, "API Key required")


router = APIRouter(tags=["workspaces"], dependencies=[NEEDS_KEY, Depends(from_here_without_key)])


@router.get("/workspaces")
async def list_workspaces(services: ServicesOf) -> dict[str, Any]:
    """Return every workspace's name."""
    return {"workspaces": list(await services.keeper.names())}


@router.put("/workspaces/{workspace}")
async def create_workspace(workspace: str, services: ServicesOf) -> JSONResponse:
    """Make an empty workspace; one that is there stays as it is."""
    if not await services.keeper.exists(checked_name(workspace)):
        await services.inputs.settle(workspace)
    made = await services.pool.create(workspace)
    status = "created" if made else "exists"
    return JSONResponse({"status": status, "workspace": workspace}, 201 if made else 200)


@router.delete("/workspaces/{workspace}")
async def drop_workspace(workspace: str, services: ServicesOf) -> dict[str, str]:
    """Remove a workspace with all it holds; one that is not there is removed already.

    `default` is there as long as the server runs: it is made anew, empty.
    """
    name = checked_name(workspace)
    gone = await services.pool.drop(
        name, wait_s=services.settings.drop_wait_s, around=services.inputs.going
    )
    services.scans.forget(name)
    if name == DEFAULT_WORKSPACE:
        await services.pool.create(name)
    return {"status": "dropped" if gone else "not_found", "workspace": name}
