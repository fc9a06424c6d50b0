"""Where an HTTP server of ours listens: bound before it is told, and without a word of its own."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.guard import LOOPBACK
from dsh_lightrag.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import uvicorn

ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - recognised here, not bound
# Another process listens there, or only root may.
_PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)


def bind(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets of one port; `localhost` means both of its addresses.

    Raises:
        ConfigurationError: none can be had; nobody else may listen on one of them either.
    """
    hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    sockets: list[socket.socket] = []
    try:
        for one in hosts:
            family = socket.AF_INET6 if ":" in one else socket.AF_INET
            if sockets and not _has(family, one):
                continue  # a machine without IPv6
            listener = socket.create_server((one, port), family=family)
            sockets.append(listener)
            # Connections inherit it. asyncio sets it on sockets alone that name their protocol,
            # and without it the second half of an answer waits 40 ms for a client's receipt.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            port = listener.getsockname()[1]
    except (OSError, UnicodeError) as error:  # the latter for a name that can be no host's
        for listener in sockets:
            listener.close()
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(
            _flag_at_fault(error), f"cannot be listened on: {reason}.", "Choose another one."
        ) from None
    return sockets


def url_of(host: str, sockets: list[socket.socket]) -> str:
    """Return where they are reached; an address that means every one, as this machine's."""
    name = "127.0.0.1" if host in ANY_ADDRESS else as_written(host)
    return f"http://{name}:{sockets[0].getsockname()[1]}"


def as_written(host: str) -> str:
    """Return a host as URLs and headers write it."""
    return f"[{host}]" if ":" in host else host


def names_of(host: str) -> tuple[str, ...]:
    """Return what the Host header may name of a server that listens there."""
    local = host in ANY_ADDRESS or Origin("http", host, 0).is_loopback
    return LOOPBACK if local else (*LOOPBACK, as_written(host))


def quiet(app: Callable[..., Any], *, shutdown_s: int) -> uvicorn.Config:
    """Return how uvicorn serves an application.

    No logging of its own: it would write requests to stdout. No proxy headers: they would let a
    client choose its own address. Connections are those of `connections.py`.

    Args:
        app: the application.
        shutdown_s: how long the end waits for streams that clients hold open.
    """
    import uvicorn  # noqa: PLC0415 - of the extras that serve

    from dsh_lightrag import connections  # noqa: PLC0415 - as above

    connections.allow_many_files()
    connections.tell_uvicorns_complaints()
    return uvicorn.Config(
        connections.Ending(app),
        http=connections.Connection,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=shutdown_s,
    )


def _has(family: int, host: str) -> bool:
    """Tell whether this machine has an address."""
    try:
        with socket.socket(family) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _flag_at_fault(error: OSError | UnicodeError) -> str:
    """Return the flag to change; the numbers of a name that is not found are others' as well."""
    if isinstance(error, socket.gaierror | UnicodeError) or error.errno not in _PORT_ERRORS:
        return "--host"
    return "--port"
