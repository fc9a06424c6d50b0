"""The server as a process: bound first, its address in the lock file, ended by a signal."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.listening import bind, quiet, url_of
from dsh_lightrag.server.app import build_app, inputs_of, make_ready
from dsh_lightrag.server.backend import BackendError
from dsh_lightrag.server.lock import DataLock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from dsh_lightrag.server.backend import Keeper
    from dsh_lightrag.server.settings import ServerSettings

# A stream that a client holds open would otherwise keep the process from ending.
SHUTDOWN_S = 5


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
            await make_ready(keeper, inputs_of(keeper, settings))
        except BackendError as error:
            raise ConfigurationError("--data", error.problem, error.mend) from error
        url = url_of(settings.host, sockets)
        lock.announce(url)
        server = uvicorn.Server(quiet(app, shutdown_s=SHUTDOWN_S))
        if threading.current_thread() is threading.main_thread():
            # From here on, and not only once uvicorn has begun. It raises the signal anew at its
            # end: the defaults would leave the lock file, or tell of a cancelled task.
            for number in (signal.SIGINT, signal.SIGTERM):
                stack.callback(signal.signal, number, signal.signal(number, server.handle_exit))
        listening(url)
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
