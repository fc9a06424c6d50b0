"""The server over streamable HTTP, answered as server-sent events unless JSON is asked for.

Revision 2026-07-28 has no sessions. Older ones open one with `initialize`: they are bounded in
number, expire when idle, and answer only to the token that opened them.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.faces.mcp.door import Doorman, KnownTokens

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
# Another process listens there, or only root may.
PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)


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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # the latter for a name that can be no host's
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(
            _flag_at_fault(error),
            f"cannot be listened on: {reason}.",
            "Choose another --host or --port.",
        ) from None
    with listener:
        written = f"[{host}]" if ":" in host else host
        listening(f"http://{written}:{listener.getsockname()[1]}")
        # No logging of its own: it would write requests to stdout. No proxy headers: they would
        # let a client choose its own address.
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        await uvicorn.Server(config).serve(sockets=[listener])


def _flag_at_fault(error: OSError | UnicodeError) -> str:
    """Return the flag to change; the numbers of a name that is not found are others' as well."""
    if isinstance(error, socket.gaierror | UnicodeError) or error.errno not in PORT_ERRORS:
        return "--host"
    return "--port"
