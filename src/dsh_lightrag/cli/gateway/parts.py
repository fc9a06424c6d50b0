"""`gateway migrate`, `api`, `worker` and `ready`: the gateway's parts, each its own process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from rich.text import Text

from dsh_lightrag.cli.gateway.flags import (
    AUDIT_DAYS,
    PORT,
    AllowedHost,
    AllowedOrigin,
    AuditDays,
    DatabaseUrlEnv,
    Host,
    Port,
    ServerKeyEnv,
    ServerUrl,
    database_url,
    server_settings,
)
from dsh_lightrag.cli.terminal import complain, show, write_json
from dsh_lightrag.errors import LightRagError, needs_extra
from dsh_lightrag.guard import Entry
from dsh_lightrag.listening import names_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dsh_lightrag.gateway.database import Database
    from dsh_lightrag.gateway.knowledge import KnowledgeServer
    from dsh_lightrag.settings import LightRagSettings


def migrate(*, database_url_env: DatabaseUrlEnv = None) -> int:
    """Bring the database to the newest shape; running it again changes nothing."""
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway.database import migrate, parse_url  # noqa: PLC0415 - the extra
    migrate(parse_url(database_url(database_url_env, None)))
    show(Text("The database has the newest shape."))
    return 0


def api(  # noqa: PLR0913 - one per flag
    *,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    allowed_host: AllowedHost = None,
    allowed_origin: AllowedOrigin = None,
    database_url_env: DatabaseUrlEnv = None,
    server_url: ServerUrl = None,
    server_key_env: ServerKeyEnv = None,
) -> int:
    """Serve the gateway's API and its MCP endpoint, until Ctrl-C."""
    database = database_url(database_url_env, None)
    settings = server_settings(server_url, server_key_env)
    entry = entry_of(host, allowed_host, allowed_origin)
    # uvicorn raises the signal that ended it anew; the parts are closed before the process ends.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with contextlib.suppress(KeyboardInterrupt):  # how this ends
        asyncio.run(_serve(database, settings, entry, host, port))
    return 0


def entry_of(
    host: str, allowed_hosts: list[str] | None, allowed_origins: list[str] | None
) -> Entry:
    """Return which hosts and origins come in; an address that is listened on is one of them."""
    return Entry(
        hosts=(*names_of(host), *(allowed_hosts or ())), origins=tuple(allowed_origins or ())
    )


async def _serve(
    database: str, settings: LightRagSettings, entry: Entry, host: str, port: int
) -> None:
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.faces.mcp.http import listen  # noqa: PLC0415 - the extra
        from dsh_lightrag.gateway.api.app import app_of  # noqa: PLC0415 - as above
        from dsh_lightrag.gateway.desk import Desk  # noqa: PLC0415 - as above
    async with Desk.open(database, settings) as desk:
        await _check(desk.server)
        await listen(
            app_of(desk, entry),
            host,
            port,
            lambda url: show(Text(f"The gateway answers at {url}, MCP at {url}/mcp.")),
        )


def worker(
    *,
    database_url_env: DatabaseUrlEnv = None,
    server_url: ServerUrl = None,
    server_key_env: ServerKeyEnv = None,
    audit_days: AuditDays = AUDIT_DAYS,
) -> int:
    """Index what is put: take jobs from the queue, until Ctrl-C."""
    database = database_url(database_url_env, None)
    settings = server_settings(server_url, server_key_env)
    asyncio.run(_work(database, settings, audit_days))
    return 0


async def _work(database_url: str, settings: LightRagSettings, audit_days: int) -> None:
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway.fetch import fetch  # noqa: PLC0415 - the extra
        from dsh_lightrag.gateway.worker import Worker  # noqa: PLC0415 - as above
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _opened(database_url, settings) as (database, server):
        await _check(server)
        show(Text("The worker takes jobs."))
        await Worker(database, server, fetch, audit_days).run(stop)


def ready(
    *,
    database_url_env: DatabaseUrlEnv = None,
    server_url: ServerUrl = None,
    server_key_env: ServerKeyEnv = None,
) -> int:
    """Tell whether database, migrations and knowledge server are in order; status 1 if not."""
    database = database_url(database_url_env, None)
    settings = server_settings(server_url, server_key_env)
    found = asyncio.run(_ready(database, settings))
    write_json(found)
    return 0 if set(found.values()) == {"ok"} else 1


async def _ready(database_url: str, settings: LightRagSettings) -> dict[str, str]:
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway import readiness  # noqa: PLC0415 - the extra
    async with _opened(database_url, settings) as (database, server):
        return await readiness.checks(database, server)


@contextlib.asynccontextmanager
async def _opened(
    database_url: str, settings: LightRagSettings
) -> AsyncIterator[tuple[Database, KnowledgeServer]]:
    """Reach the database and the knowledge server, and let go of both."""
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway.database import Database  # noqa: PLC0415 - the extra
        from dsh_lightrag.gateway.knowledge import KnowledgeServer  # noqa: PLC0415 - as above
    database, server = Database(database_url), KnowledgeServer(settings)
    try:
        yield database, server
    finally:
        await server.close()
        await database.close()


async def _check(server: KnowledgeServer) -> None:
    """Refuse a server that does not isolate workspaces; one that is still to come is waited for.

    Raises:
        ConfigurationError: as `KnowledgeServer.check`.
    """
    try:
        await server.check()
    except LightRagError as error:
        complain(f"The knowledge server does not answer yet ({error.code}).")
