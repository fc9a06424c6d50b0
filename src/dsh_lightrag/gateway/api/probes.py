"""Probes: whether the process lives, and whether it could answer a search now."""

from fastapi import APIRouter, Response

from dsh_lightrag.gateway import readiness
from dsh_lightrag.gateway.api.access import Parts
from dsh_lightrag.gateway.api.shapes import State

router = APIRouter(tags=["probes"])


@router.get("/healthz", operation_id="live")
async def live() -> State:
    """Tell that the process answers; a restart would mend nothing else."""
    return State(status=readiness.OK)


@router.get("/readyz", operation_id="ready", responses={503: {"model": State}})
async def ready(desk: Parts, response: Response) -> State:
    """Tell whether the database, its migrations and the knowledge server are in order."""
    checks = await readiness.checks(desk.database, desk.server)
    if not readiness.all_ok(checks):
        response.status_code = 503
        return State(status=readiness.FAILED, checks=checks)
    return State(status=readiness.OK, checks=checks)
