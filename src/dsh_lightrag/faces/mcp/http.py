"""The server over streamable HTTP, answered as server-sent events unless JSON is asked for.

Revision 2026-07-28 has no sessions. Older ones open one with `initialize`: they are bounded in
number, expire when idle, and answer only to the token that opened them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from dsh_lightrag.faces.mcp.door import Doorman, KnownTokens
from dsh_lightrag.listening import bind, quiet, url_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp

    from dsh_lightrag.faces.mcp.door import Door

PATH = "/mcp"
IDLE_S = 30 * 60.0
MAX_SESSIONS = 1000
# A stream that a client holds open would otherwise keep the process from ending.
SHUTDOWN_S = 3


def app_of(
    server: Server[None],
    door: Door,
    *,
    json_response: bool = False,
    idle_s: float = IDLE_S,
    max_sessions: int = MAX_SESSIONS,
) -> ASGIApp:
    """Return the ASGI application; its lifespan is the server's."""
    security = door.security
    # The URL is for OAuth metadata, of which a plain token has none.
    auth = AuthSettings(issuer_url=AnyHttpUrl("http://localhost/"), resource_server_url=None)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=json_response,
        session_idle_timeout=idle_s,
        max_sessions=max_sessions,
        transport_security=security,
        auth=auth if door.tokens else None,
        token_verifier=KnownTokens(door.tokens) if door.tokens else None,
    )
    return Doorman(app, security)


async def serve(app: ASGIApp, door: Door, listening: Callable[[str], None]) -> None:
    """Listen until SIGINT or SIGTERM; `listening` is told the URL.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    await listen(app, door.host, door.port, lambda origin: listening(f"{origin}{PATH}"))


async def listen(app: ASGIApp, host: str, port: int, listening: Callable[[str], None]) -> None:
    """Serve any application until SIGINT or SIGTERM; `listening` is told its origin.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bind(host, port)]
        listening(url_of(host, sockets))
        await uvicorn.Server(quiet(app, shutdown_s=SHUTDOWN_S)).serve(sockets=sockets)
