"""Pydantic AI: the catalog as a `FunctionToolset`.

from dsh_lightrag.faces.pydantic_ai import tools

agent = Agent(model, toolsets=[tools(LightRagSettings())])

The model reads the text form; the structured result is the tool return's `metadata`, for the
application. Wrong arguments are a `ModelRetry`, as the framework's own validation errors are:
they count against the tool's retries. Every other failure is a `ToolFailed`: the model sees the
code and the hint, nothing is counted, and the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from dsh_lightrag.errors import Code, needs_extra
from dsh_lightrag.faces.common import Answer, Desk

with needs_extra("pydantic-ai", __name__):
    from pydantic_ai import FunctionToolset, ModelRetry, RunContext, Tool, ToolReturn
    from pydantic_ai.exceptions import ToolFailed

if TYPE_CHECKING:
    from pydantic_ai.toolsets import ToolsetTool

    from dsh_lightrag.dispatch import AnyTool, Dispatcher
    from dsh_lightrag.settings import LightRagSettings


class KnowledgeToolset(FunctionToolset[Any]):
    """The tools, and the connections behind them.

    The framework enters a toolset for each run, and for the whole of `async with agent`; the
    last one to leave closes the connections. There is nothing else to close.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__([_tool(desk, tool) for tool in desk.tools])
        self._desk = desk

    async def __aenter__(self) -> Self:
        self._desk.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._desk.leave()

    async def call_tool(
        self, name: str, tool_args: Any, ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool; arguments that are no object are answered here, not with a TypeError."""
        if not isinstance(tool_args, dict):
            return _shown(await self._desk.ask(name, tool_args))
        return await super().call_tool(name, tool_args, ctx, tool)


def tools(source: LightRagSettings | Dispatcher) -> KnowledgeToolset:
    """Return the switched-on tools, in catalog order, as one toolset."""
    return KnowledgeToolset(Desk(source))


def _tool(desk: Desk, tool: AnyTool) -> Tool[Any]:
    async def ask(**arguments: Any) -> ToolReturn:
        return _shown(await desk.ask(tool.name, arguments))

    return Tool.from_schema(ask, tool.name, tool.description, tool.input_schema)


def _shown(answer: Answer) -> ToolReturn:
    if answer.code is Code.INVALID_ARGUMENT:
        raise ModelRetry(answer.text)
    if answer.failed:
        raise ToolFailed(answer.text)
    return ToolReturn(answer.text, metadata=answer.structured)
