"""`llm`: the catalog as tools of the command line and of Python code that uses it.

llm -T dsh_lightrag_query "Who found polonium? Ask the knowledge base."

Settings come from `LIGHTRAG_*` variables. `llm` loads plugins before it knows what it is to do,
so a configuration that cannot work must not stop it: the read tools are offered all the same
and say, when they are called, what to mend.

`llm` shows a model the text of whatever a tool raises, and files the exception in its own log:
a failure is raised as `ToolFailure`, whose text is code, message and hint. Ctrl-C cancels a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.dispatch import Switch
from dsh_lightrag.errors import ConfigurationError, needs_extra
from dsh_lightrag.faces.common import Desk, Toolset
from dsh_lightrag.settings import LightRagSettings
from dsh_lightrag.tools.catalog import TOOLS

with needs_extra("llm", __name__):
    import llm

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_lightrag.dispatch import AnyTool, Dispatcher


class ToolFailure(Exception):  # noqa: N818 - the name is told, llm puts it before the text
    """A call that failed; its text is what the model reads."""


def tools(source: LightRagSettings | Dispatcher) -> Toolset[llm.Tool]:
    """Return the switched-on tools, in catalog order, for `model.chain(…, tools=…)`.

    Close the list when done; what the plugin registers is closed at the end of the process.
    """
    desk = Desk(source)
    return Toolset((_tool(tool, _calls(desk, tool.name)) for tool in desk.tools), desk)


@llm.hookimpl
def register_tools(register: Callable[[llm.Tool], None]) -> None:
    """Offer the tools that the environment's settings switch on."""
    try:
        offered: list[llm.Tool] = tools(LightRagSettings.from_env())
    except ConfigurationError as error:
        unswitched = [tool for tool in TOOLS if tool.switch is Switch.NONE]
        offered = [_tool(tool, _refuses(str(error))) for tool in unswitched]
    for tool in offered:
        register(tool)


def _tool(tool: AnyTool, implementation: Callable[..., str]) -> llm.Tool:
    return llm.Tool(tool.name, tool.description, tool.input_schema, implementation)


def _calls(desk: Desk, name: str) -> Callable[..., str]:
    def implementation(**arguments: Any) -> str:
        answer = desk.ask_blocking(name, arguments)
        if answer.failed:
            raise ToolFailure(answer.text)
        return answer.text

    return implementation


def _refuses(problem: str) -> Callable[..., str]:
    def implementation(**_: Any) -> str:
        raise ToolFailure(problem)

    return implementation
