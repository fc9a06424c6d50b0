"""Probes: whether the process lives, and whether it could answer a search now."""

import asyncio

from fastapi import APIRouter, Response
from sqlalchemy.exc import SQLAlchemyError

from dsh_lightrag.errors import ConfigurationError, LightRagError
from dsh_lightrag.gateway.api.access import Parts
from dsh_lightrag.gateway.api.shapes import State
from dsh_lightrag.gateway.desk import Desk

router = APIRouter(tags=["probes"])
PROBE_S = 5.0
OK, FAILED = "ok", "failed"


@router.get("/healthz", operation_id="live")
async def live() -> State:
    """Tell that the process answers; a restart would mend nothing else."""
    return State(status=OK)


@router.get("/readyz", operation_id="ready", responses={503: {"model": State}})
async def ready(desk: Parts, response: Response) -> State:
    """Tell whether the database, its migrations and the knowledge server are in order."""
    checks = {
        "database": await _database(desk),
        "knowledgeServer": await _server(desk),
    }
    status = OK if set(checks.values()) == {OK} else FAILED
    if status == FAILED:
        response.status_code = 503
    return State(status=status, checks=checks)


async def _database(desk: Desk) -> str:
    try:
        async with asyncio.timeout(PROBE_S):
            return OK if await desk.database.is_current() else "not migrated"
    except (SQLAlchemyError, OSError, TimeoutError):
        return FAILED


async def _server(desk: Desk) -> str:
    try:
        async with asyncio.timeout(PROBE_S):
            await desk.server.check()
    except LightRagError as error:
        return error.code.value
    except ConfigurationError:
        return "does not isolate workspaces"
    except TimeoutError:
        return FAILED
    return OK
