"""What every Python face needs: calls that end in an answer, and connections that get closed.

A face hands raw arguments in and shows the answer in its framework's words. Arguments are
checked, switches obeyed and calls logged by `Dispatcher.call`, below.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

from dsh_lightrag.blocking import BlockingToolbox
from dsh_lightrag.dispatch import AnyTool, Dispatcher
from dsh_lightrag.errors import PLUGIN_NAME, Code, LightRagError, UnknownToolError
from dsh_lightrag.tools.catalog import toolbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_lightrag.settings import LightRagSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave, or how it failed: the model can act on `text` in both cases.

    Attributes:
        text: the result's text form; for a failure the code, what happened and a hint.
        structured: the result against the tool's output schema; None for a failure.
        code: why it failed; None for a result, and for a fault of this package.
    """

    text: str
    structured: dict[str, Any] | None = None
    code: Code | None = None

    @property
    def failed(self) -> bool:
        """Whether the framework must be told of an error."""
        return self.structured is None


def _failure(error: Exception, tool: str) -> Answer:
    """Return a failure as text; a bug is named as one and shows nothing of what it met."""
    if isinstance(error, LightRagError):
        return Answer(str(error), code=error.code)
    if isinstance(error, UnknownToolError):  # a host that checks names itself never gets here
        return Answer(f"{PLUGIN_NAME}: there is no tool of that name.")
    return Answer(
        f"{PLUGIN_NAME}: {tool} failed by a fault of the plugin itself, not of the arguments. "
        "Hint: Go on without it; the operator finds the place in the log, outcome bug."
    )


class Desk:
    """One catalog under one configuration, called with `await` or without.

    A desk that is given settings makes its own dispatcher and closes that with `aclose()`; one
    that is given a dispatcher (to share its connections, or for a catalog of one's own) leaves
    it to its owner.
    """

    def __init__(self, source: LightRagSettings | Dispatcher) -> None:
        self._dispatcher = source if isinstance(source, Dispatcher) else toolbox(source)
        self._owns_dispatcher = self._dispatcher is not source
        self._blocking: BlockingToolbox | None = None
        self._lock = threading.Lock()
        self._users: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that are switched on, in catalog order."""
        return self._dispatcher.tools

    @property
    def max_text_bytes(self) -> int:
        """How long an answer's text can be."""
        return self._dispatcher.settings.output.max_text_bytes

    async def ask(self, tool: str, arguments: Any) -> Answer:
        """Call a tool; cancellation alone passes through, and reaches the HTTP call."""
        try:
            outcome = await self._dispatcher.call(tool, arguments)
        except Exception as error:  # noqa: BLE001 - logged by the dispatcher; hosts must go on
            return _failure(error, tool)
        return Answer(outcome.text, outcome.structured)

    def ask_blocking(self, tool: str, arguments: Any) -> Answer:
        """Call a tool without `await`, inside a running loop too."""
        try:
            outcome = self._facade().call(tool, arguments)
        except Exception as error:  # noqa: BLE001 - as above
            return _failure(error, tool)
        return Answer(outcome.text, outcome.structured)

    def _facade(self) -> BlockingToolbox:
        with self._lock:
            if self._blocking is None:
                self._blocking = BlockingToolbox(self._dispatcher)
            return self._blocking

    def enter(self) -> None:
        """Count a user of the running loop's connections."""
        loop = asyncio.get_running_loop()
        self._users[loop] = self._users.get(loop, 0) + 1

    async def leave(self) -> None:
        """Close the running loop's connections when its last user leaves."""
        loop = asyncio.get_running_loop()
        self._users[loop] -= 1
        if not self._users[loop]:
            await self._close_connections()

    async def aclose(self) -> None:
        """Close the running loop's connections and what calls without `await` opened."""
        await asyncio.to_thread(self.close)
        await self._close_connections()

    async def _close_connections(self) -> None:
        if self._owns_dispatcher:
            await self._dispatcher.aclose()

    def close(self) -> None:
        """Close what calls without `await` opened; idempotent."""
        with self._lock:
            facade, self._blocking = self._blocking, None
        if facade is not None:
            facade.close()


class Toolset(list[T]):
    """A framework's tools as a plain list, and the connections behind them.

    Close with `await tools.aclose()` or `async with tools`; where nothing was awaited,
    `tools.close()` or `with tools` is enough.
    """

    def __init__(self, tools: Iterable[T], desk: Desk) -> None:
        super().__init__(tools)
        self._desk = desk

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close all connections; idempotent."""
        await self._desk.aclose()

    def close(self) -> None:
        """Close the connections of calls without `await`; idempotent."""
        self._desk.close()
