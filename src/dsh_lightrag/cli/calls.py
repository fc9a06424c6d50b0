"""One tool call for the command line, and the envelope in which programs read how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import LightRagError
from dsh_lightrag.loop_thread import run
from dsh_lightrag.tools.catalog import toolbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_lightrag.dispatch import Outcome
    from dsh_lightrag.settings import LightRagSettings


def attempt(
    settings: LightRagSettings, tool: str, arguments: Mapping[str, Any] | None
) -> Outcome | LightRagError:
    """Call a tool once; a failed call is a value like a good one."""

    async def once() -> Outcome:
        async with toolbox(settings) as tools:
            return await tools.call(tool, arguments)

    try:
        return run(once())
    except LightRagError as error:
        return error


def envelope(tool: str, ending: Outcome | LightRagError) -> dict[str, Any]:
    """Return the one JSON object that tells how a call ended."""
    if isinstance(ending, LightRagError):
        return {"ok": False, "tool": tool, "error": ending.fields()}
    return {"ok": True, "tool": tool, "result": ending.structured}
