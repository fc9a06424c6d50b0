"""Applies the plugin to a host: the entry point `dsh-lightrag` of the group `dsh.plugins`.

    dispose = apply(host, {"endpoint": "http://127.0.0.1:9621"})

Nothing is shared between two applications: each has its own settings, tools and connections.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dsh_lightrag.harness.host import Disposer, RegisteredTool, ToolHost
from dsh_lightrag.harness.profiles import settings_of
from dsh_lightrag.logs import get_logger
from dsh_lightrag.tools.catalog import toolbox

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Mapping

    from dsh_lightrag.dispatch import Outcome
    from dsh_lightrag.settings import LightRagSettings


def apply(host: ToolHost, config: object = None) -> Disposer:
    """Register the tools that the config switches on, in catalog order.

    Args:
        host: whatever offers `register(tool) -> disposer`.
        config: the config of the plugin's row: a mapping with the keys directly or under
            `lightrag`; None for the defaults. It is complete: no variable adds to it but
            LIGHTRAG_API_KEY to a blank apiKey.

    Returns:
        A disposer, synchronous and idempotent: it unregisters in reverse order and closes the
        connections. In a running event loop they are closed in the loop's next steps.

    Raises:
        ConfigurationError: the config cannot work; nothing was registered.
        Exception: the host refused a tool, with the host's own error; what was registered
            before it is unregistered again.
    """
    settings = settings_of(config)
    application = _Application(settings)
    with ExitStack() as undoing:
        undoing.callback(application.close)
        for tool in application.dispatcher.tools:
            undoing.callback(host.register(RegisteredTool(tool, application)))
        get_logger().info(
            "plugin_applied",
            tools=[tool.name for tool in application.dispatcher.tools],
            endpoint=settings.endpoint,
            key_set=bool(settings.api_key.get_secret_value()),
        )
        return undoing.pop_all().close


class _Application:
    """One application's calls, until it is closed."""

    def __init__(self, settings: LightRagSettings) -> None:
        self.dispatcher = toolbox(settings)
        # Connections belong to the loop that opened them and must be closed in it.
        self._loops: WeakSet[AbstractEventLoop] = WeakSet()

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        self._loops.add(asyncio.get_running_loop())
        return await self.dispatcher.call(name, arguments)

    def close(self) -> None:
        self.dispatcher.withdraw()  # or a tool that is kept would open the connections anew
        for loop in list(self._loops):
            self._close_in(loop)

    def _close_in(self, loop: AbstractEventLoop) -> None:
        if loop.is_closed():
            return  # its connections can be closed no more; they go with it
        if not (loop.is_running() or _in_a_loop()):
            loop.run_until_complete(self.dispatcher.aclose())
            return
        closing = self._closing()
        closing.send(None)
        loop.call_soon_threadsafe(loop.create_task, closing)

    async def _closing(self) -> None:
        """Close the connections, even if cancelled before the loop comes to it.

        `asyncio.run` cancels what is pending when its main coroutine returns, and disposing may
        be the last thing which that does. So this is begun before it becomes a task: a
        cancellation then arrives at the first line instead of in place of it.
        """
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        await self.dispatcher.aclose()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
