"""The catalog: one line per tool, in the order in which hosts list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_lightrag.dispatch import AnyTool, Dispatcher
from dsh_lightrag.tools import delete, documents, insert, query, query_data, scan, status

if TYPE_CHECKING:
    from dsh_lightrag.settings import LightRagSettings
    from dsh_lightrag.transport import Transport

TOOLS: tuple[AnyTool, ...] = (
    query.TOOL,
    documents.TOOL,
    status.TOOL,
    query_data.TOOL,
    insert.TOOL,
    scan.TOOL,
    delete.TOOL,
)


def toolbox(settings: LightRagSettings, transport: Transport | None = None) -> Dispatcher:
    """Return the whole catalog, ready to call under these settings; close it when done."""
    return Dispatcher(settings, TOOLS, transport)
