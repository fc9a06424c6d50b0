"""Claude Agent SDK: the catalog as an in-process MCP server.

from dsh_lightrag.faces.claude_agent import tools

options = ClaudeAgentOptions(
    mcp_servers={"knowledge": tools(LightRagSettings())},
    allowed_tools=["mcp__knowledge__dsh_lightrag_query"],
)

The model reads the text form, in which retrieved text stands fenced as data. A failure is a
result with `isError`, code and hint.

The server is one "of your own", as the SDK calls it, and not made by `create_sdk_mcp_server`:
that would check arguments itself, refuse the nulls that models fill optional ones with, answer
with neither code nor hint, and have nobody close the connections.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import PLUGIN_NAME, needs_extra
from dsh_lightrag.faces.common import Desk
from dsh_lightrag.version import __version__

with needs_extra("claude-agent", __name__):
    from claude_agent_sdk import McpSdkServerConfig
    from mcp.server import Server
    from mcp.types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        TextContent,
        Tool,
        ToolAnnotations,
    )

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dsh_lightrag.dispatch import AnyTool, Dispatcher
    from dsh_lightrag.settings import LightRagSettings

# Up to this many characters Claude Code keeps a result inline instead of filing it away.
_SIZE_HINT = "anthropic/maxResultSizeChars"


def tools(source: LightRagSettings | Dispatcher) -> McpSdkServerConfig:
    """Return a server of the switched-on tools, in catalog order, for `mcp_servers`.

    The SDK runs the server once per query or client; the last one to end closes the
    connections. There is nothing else to close.
    """
    desk = Desk(source)
    definitions = [_definition(tool, desk.max_text_bytes) for tool in desk.tools]

    @asynccontextmanager
    async def running(_server: Server[Any]) -> AsyncIterator[None]:
        desk.enter()
        try:
            yield
        finally:
            await desk.leave()

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=definitions)

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        answer = await desk.ask(params.name, params.arguments)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)], is_error=answer.failed
        )

    server: Server[Any] = Server(
        PLUGIN_NAME,
        version=__version__,
        lifespan=running,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    return McpSdkServerConfig(type="sdk", name=PLUGIN_NAME, instance=server)


def _definition(tool: AnyTool, max_text_bytes: int) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=ToolAnnotations.model_validate(tool.annotations),
        _meta={_SIZE_HINT: max_text_bytes},
    )
