"""OpenAI Agents SDK: the catalog as `FunctionTool`s.

from dsh_lightrag.faces.openai_agents import tools

async with tools(LightRagSettings()) as knowledge:
    agent = Agent(name="librarian", tools=knowledge)

The SDK gives a tool one way to tell the model of an error that it can act on: to return it as
the output. An exception would fail the run, or reach the model as a fixed sentence without code
and hint, so a failure is returned as text, and so are arguments that are no JSON. Schemas are
not strict: strict ones would make every optional argument required.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.faces.common import Desk, Toolset

with needs_extra("openai-agents", __name__):
    from agents import FunctionTool

if TYPE_CHECKING:
    from dsh_lightrag.dispatch import AnyTool, Dispatcher
    from dsh_lightrag.settings import LightRagSettings


def tools(source: LightRagSettings | Dispatcher) -> Toolset[FunctionTool]:
    """Return the switched-on tools, in catalog order.

    Close the list when done; a dispatcher that was passed stays its owner's to close.
    """
    desk = Desk(source)
    return Toolset((_tool(desk, tool) for tool in desk.tools), desk)


def _tool(desk: Desk, tool: AnyTool) -> FunctionTool:
    async def ask(_context: Any, arguments: str) -> str:
        return (await desk.ask(tool.name, _parsed(arguments))).text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.input_schema,
        on_invoke_tool=ask,
        strict_json_schema=False,
    )


def _parsed(arguments: str) -> Any:
    """Return what the model wrote; text that is no JSON stays text, which `call` refuses."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
