"""Where the engine's blocking calls run: some threads for questions, some for writing.

They are apart, so that a hundred documents being filed never keep a question waiting for a thread.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from dsh_lightrag.server.embedded.faults import translated

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_READERS = 8
_WRITERS = 4


class Threads:
    """The threads of one keeper, shared by all its workspaces; used on one event loop."""

    def __init__(self) -> None:
        self._reading = anyio.CapacityLimiter(_READERS)
        self._writing = anyio.CapacityLimiter(_WRITERS)

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what only looks; whoever asks may go away before it is done."""
        with translated():
            return await anyio.to_thread.run_sync(
                functools.partial(call, *args, **kwargs),
                limiter=self._reading,
                abandon_on_cancel=True,
            )

    async def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what changes something; a caller that is cancelled does not learn how it ended."""
        with translated():
            return await anyio.to_thread.run_sync(
                functools.partial(call, *args, **kwargs), limiter=self._writing
            )
