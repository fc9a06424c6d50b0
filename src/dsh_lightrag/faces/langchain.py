"""LangChain: the catalog as `StructuredTool`s.

from dsh_lightrag.faces.langchain import tools

async with tools(LightRagSettings()) as knowledge:
    agent = create_agent(model, knowledge)

A result is content (the text form) and artifact (the structured result). A failure is what
LangChain calls a tool error: `ToolException`, handled by the tool itself, so that the model
reads the code and the hint in a message of status `error` and the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.faces.common import Answer, Desk, Toolset

with needs_extra("langchain", __name__):
    from langchain_core.tools import StructuredTool, ToolException

if TYPE_CHECKING:
    from dsh_lightrag.dispatch import AnyTool, Dispatcher
    from dsh_lightrag.settings import LightRagSettings

Pair = tuple[str, dict[str, Any] | None]


class KnowledgeTool(StructuredTool):
    """A tool that passes on exactly the arguments it was given.

    `StructuredTool` itself keeps the names `config`, `run_manager` and `self` back, so that a
    model which sends one of them would not be told that it is no argument.
    """

    def _run(self, /, *_: Any, **arguments: Any) -> Pair:
        answer: Pair = self.func(arguments)  # type: ignore[misc] # set by tools()
        return answer

    async def _arun(self, /, *_: Any, **arguments: Any) -> Pair:
        answer: Pair = await self.coroutine(arguments)  # type: ignore[misc] # as above
        return answer


def tools(source: LightRagSettings | Dispatcher) -> Toolset[StructuredTool]:
    """Return the switched-on tools, in catalog order; they work with `invoke` and `ainvoke`.

    Close the list when done; a dispatcher that was passed stays its owner's to close.
    """
    desk = Desk(source)
    return Toolset((_tool(desk, tool) for tool in desk.tools), desk)


def _tool(desk: Desk, tool: AnyTool) -> StructuredTool:
    def ask_blocking(arguments: dict[str, Any]) -> Pair:
        return _pair(desk.ask_blocking(tool.name, arguments))

    async def ask(arguments: dict[str, Any]) -> Pair:
        return _pair(await desk.ask(tool.name, arguments))

    return KnowledgeTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.input_schema,
        func=ask_blocking,
        coroutine=ask,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={**tool.annotations, "output_schema": tool.output_schema},
    )


def _pair(answer: Answer) -> Pair:
    if answer.failed:
        raise ToolException(answer.text)
    return answer.text, answer.structured
