"""LlamaIndex: the catalog as `FunctionTool`s.

from dsh_lightrag.faces.llama_index import tools

async with tools(LightRagSettings()) as knowledge:
    agent = FunctionAgent(llm=llm, tools=knowledge)

A result's content is the text form and its `raw_output` the structured result. A failure is a
`ToolOutput` with `is_error`, whose content names the code and the hint: what LlamaIndex's agents
make of an exception, and what calls outside an agent would otherwise have to catch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.faces.common import Answer, Desk, Toolset

with needs_extra("llama-index", __name__):
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput

if TYPE_CHECKING:
    from dsh_lightrag.dispatch import AnyTool, Dispatcher
    from dsh_lightrag.schemas import JsonSchema
    from dsh_lightrag.settings import LightRagSettings


class KnowledgeMetadata(ToolMetadata):
    """What models are told of a tool: the catalog's own schema, not one made from a model."""

    def __init__(self, tool: AnyTool) -> None:
        super().__init__(tool.description, tool.name, fn_schema=tool.args)
        self._schema = tool.input_schema

    def get_parameters_dict(self) -> JsonSchema:
        """Return the schema that the framework sends to models."""
        return self._schema


class KnowledgeTool(FunctionTool):
    """A tool that passes on exactly the arguments it was given and marks failures as errors."""

    def __init__(self, desk: Desk, tool: AnyTool) -> None:
        self._desk = desk
        self._name = tool.name

        def text_blocking(**arguments: Any) -> str:
            return desk.ask_blocking(tool.name, arguments).text

        async def text(**arguments: Any) -> str:
            return (await desk.ask(tool.name, arguments)).text

        # The functions serve those who take them out of the tool, conversions to others say.
        super().__init__(fn=text_blocking, async_fn=text, metadata=KnowledgeMetadata(tool))

    def __call__(self, /, *_: Any, **arguments: Any) -> ToolOutput:
        """Call the tool, as `call`."""
        return self.call(**arguments)

    def call(self, /, *_: Any, **arguments: Any) -> ToolOutput:
        """Call the tool, inside a running loop too."""
        return self._output(self._desk.ask_blocking(self._name, arguments), arguments)

    async def acall(self, /, *_: Any, **arguments: Any) -> ToolOutput:
        """Call the tool; cancellation reaches the HTTP call."""
        return self._output(await self._desk.ask(self._name, arguments), arguments)

    def _output(self, answer: Answer, arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput(
            tool_name=self._name,
            content=answer.text,
            raw_input={"args": (), "kwargs": arguments},
            raw_output=answer.text if answer.failed else answer.structured,
            is_error=answer.failed,
        )


def tools(source: LightRagSettings | Dispatcher) -> Toolset[FunctionTool]:
    """Return the switched-on tools, in catalog order; they work with `call` and `acall`.

    Close the list when done; a dispatcher that was passed stays its owner's to close.
    """
    desk = Desk(source)
    return Toolset((KnowledgeTool(desk, tool) for tool in desk.tools), desk)
