"""The server as a process: bound first, its address in the lock file, ended by a signal."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.server.app import build_app
from dsh_lightrag.server.backend import BackendError
from dsh_lightrag.server.lock import DataLock
from dsh_lightrag.server.settings import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from dsh_lightrag.server.backend import Keeper
    from dsh_lightrag.server.settings import ServerSettings

# A stream that a client holds open would otherwise keep the process from ending.
SHUTDOWN_S = 5
# Another process listens there, or only root may.
_PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)


async def serve(
    keeper: Keeper,
    settings: ServerSettings,
    listening: Callable[[str], None],
    ending: asyncio.Event | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until `ending` is set; `listening` is told the URL.

    Raises:
        ConfigurationError: the address or the data folder cannot be had.
    """
    app = build_app(keeper, settings)
    with DataLock(settings.data) as lock, ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bind(settings.host, settings.port)]
        try:
            await keeper.create(DEFAULT_WORKSPACE)
        except BackendError as error:
            raise ConfigurationError("--data", error.problem, error.mend) from error
        url = f"http://{_written(settings.host)}:{sockets[0].getsockname()[1]}"
        lock.announce(url)
        listening(url)
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
        server = uvicorn.Server(config)
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal anew at its end: its default would leave the lock file.
            before = signal.signal(signal.SIGTERM, server.handle_exit)
            stack.callback(signal.signal, signal.SIGTERM, before)
        async with _ended_by(ending, server):
            await server.serve(sockets=sockets)


@asynccontextmanager
async def _ended_by(ending: asyncio.Event | None, server: uvicorn.Server) -> AsyncIterator[None]:
    """Ask a server to end when an event is set: in a thread no signal reaches it."""

    async def end() -> None:
        if ending is not None:
            await ending.wait()
            server.should_exit = True

    waiting = asyncio.create_task(end())
    try:
        yield
    finally:
        waiting.cancel()


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
            port = listener.getsockname()[1]
    except (OSError, UnicodeError) as error:  # the latter for a name that can be no host's
        for listener in sockets:
            listener.close()
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(
            _flag_at_fault(error), f"cannot be listened on: {reason}.", "Choose another one."
        ) from None
    return sockets


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


def _written(host: str) -> str:
    """Return a host as a URL writes it; an address that means every one, as this machine's."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - recognised here, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
