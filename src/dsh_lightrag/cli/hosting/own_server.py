"""A server in a thread of this process: bases are only ever written through a server.

A command that finds no server for its data folder is one for as long as it runs, lock file and
all: a second command then uses it, and there are never two writers.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING

from dsh_lightrag.cli.hosting.flags import keeper_of, server_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.cli.hosting.flags import Hosting
    from dsh_lightrag.server.backend import Keeper
    from dsh_lightrag.server.settings import ServerSettings

# The server lets streams go after 5 s and its background work after 5 s more.
CLOSE_S = 20.0


@contextmanager
def own_server(hosting: Hosting, *, port: int = 0, api_key: str = "") -> Iterator[str]:
    """Serve a data folder on loopback inside this; yields the URL.

    Raises:
        ConfigurationError: the folder or the port is taken, or the flags cannot work.
    """
    keeper = keeper_of(hosting)
    settings = server_settings(hosting, port=port, api_key=api_key)
    server = _Server(keeper, settings)
    server.thread.start()
    try:
        yield server.url.result()
    finally:
        server.end()


class _Server:
    def __init__(self, keeper: Keeper, settings: ServerSettings) -> None:
        self.url: Future[str] = Future()
        self._ending: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._keeper = keeper
        self._settings = settings
        # A daemon: whoever interrupts the orderly end does not wait for it.
        self.thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="dsh-lightrag-server", daemon=True
        )

    def end(self) -> None:
        """Ask the server to end and wait for it."""
        if self._ending is not None and self.thread.is_alive():
            loop, ending = self._ending
            loop.call_soon_threadsafe(ending.set)
        self.thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the future carries it to who waits for it
            if not self.url.done():
                self.url.set_exception(error)

    async def _serve(self) -> None:
        from dsh_lightrag.server.serve import serve  # noqa: PLC0415 - loaded when used

        ending = asyncio.Event()
        self._ending = (asyncio.get_running_loop(), ending)
        await serve(self._keeper, self._settings, self.url.set_result, ending)
        if not self.url.done():
            self.url.set_exception(RuntimeError("the server ended before it began"))
