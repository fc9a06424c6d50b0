"""The catalog as an MCP server: tools, outcomes and errors in the protocol's words."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from dsh_lightrag.errors import PLUGIN_NAME, LightRagError, UnknownToolError
from dsh_lightrag.faces.mcp.instructions import instructions
from dsh_lightrag.faces.mcp.progress import EVERY_S, Ticking
from dsh_lightrag.text import Redactor, excerpt
from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.context import ServerRequestContext

    from dsh_lightrag.dispatch import AnyTool, Outcome
    from dsh_lightrag.errors import ErrorFields
    from dsh_lightrag.faces.mcp.offer import Offer

    Context = ServerRequestContext[None, Any]

TITLE = "LightRAG knowledge base"
# Where a result's `_meta` carries the error that its text tells, for hosts that branch on codes.
ERROR_KEY = f"{PLUGIN_NAME}/error"
# Claude Code keeps a result up to this size in the conversation; larger ones go to a file.
SIZE_KEY = "anthropic/maxResultSizeChars"
MAX_SIZE_HINT = 500_000
BUG_TEXT = (
    f"{PLUGIN_NAME}: the call failed inside the plugin, not at the knowledge server. "
    "Hint: ask the operator to look for the outcome `bug` in this server's log."
)


def build(offer: Offer, *, progress_every_s: float = EVERY_S) -> Server[None]:
    """Return a server of what is offered; it closes the dispatcher when it has been run."""
    settings = offer.dispatcher.settings
    redact = Redactor(settings.api_key.get_secret_value())
    ticking = Ticking(settings.timeout_ms / 1000, progress_every_s)
    listed = types.ListToolsResult(
        tools=[tool_of(tool, settings.output.max_text_bytes) for tool in offer.tools]
    )
    schemas = {tool.name: tool.input_schema for tool in listed.tools}

    async def list_tools(_context: Context, _params: object) -> types.ListToolsResult:
        return listed

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            async with ticking.around(params.name, context.session.report_progress):
                return succeeded(await offer.call(params.name, params.arguments))
        except UnknownToolError:
            raise MCPError(
                types.INVALID_PARAMS, f"Unknown tool: {excerpt(params.name, redact)}"
            ) from None
        except LightRagError as error:
            return failed(str(error), error.fields())
        except Exception:  # noqa: BLE001 - the dispatcher logged it; its text may quote the user
            return failed(BUG_TEXT)

    @contextlib.asynccontextmanager
    async def lifespan(_server: Server[None]) -> AsyncIterator[None]:
        async with offer.dispatcher:
            yield

    return Server(
        PLUGIN_NAME,
        version=__version__,
        title=TITLE,
        instructions=instructions(schemas),
        lifespan=lifespan,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def tool_of(tool: AnyTool, max_text_bytes: int) -> types.Tool:
    """Return a tool as the protocol lists it."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations.model_validate({"title": tool.title, **tool.annotations}),
        _meta={SIZE_KEY: min(max_text_bytes, MAX_SIZE_HINT)},
    )


def succeeded(outcome: Outcome) -> types.CallToolResult:
    """Translate an outcome; its structured part was validated by the model that made it."""
    return types.CallToolResult(
        content=[types.TextContent(text=outcome.text)], structured_content=outcome.structured
    )


def failed(text: str, fields: ErrorFields | None = None) -> types.CallToolResult:
    """Translate a failure; it is the tool's, not the protocol's."""
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        is_error=True,
        _meta=None if fields is None else {ERROR_KEY: dict(fields)},
    )
