"""Whether a part of the gateway could do its work now: what it needs, asked for real."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from dsh_lightrag.errors import ConfigurationError, LightRagError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_lightrag.gateway.database import Database
    from dsh_lightrag.gateway.knowledge import KnowledgeServer

PROBE_S = 5.0
OK, FAILED = "ok", "failed"


async def checks(database: Database, server: KnowledgeServer) -> dict[str, str]:
    """Return by part `ok`, or in a few words what is wrong with it; takes at most 10 seconds."""
    return {"database": await _database(database), "knowledgeServer": await _server(server)}


def all_ok(found: Mapping[str, str]) -> bool:
    """Tell whether every part is in order."""
    return set(found.values()) == {OK}


async def _database(database: Database) -> str:
    try:
        async with asyncio.timeout(PROBE_S):
            return OK if await database.is_current() else "not migrated"
    except (SQLAlchemyError, OSError, TimeoutError):
        return FAILED


async def _server(server: KnowledgeServer) -> str:
    try:
        async with asyncio.timeout(PROBE_S):
            await server.check()
    except LightRagError as error:
        return error.code.value
    except ConfigurationError:
        return "does not isolate workspaces"
    except TimeoutError:
        return FAILED
    return OK
