"""Knowledge-base tools for agents over a LightRAG graph-RAG index.

async with toolbox(LightRagSettings(endpoint="http://127.0.0.1:9621")) as tools:
    outcome = await tools.call("dsh_lightrag_query", {"question": "Who found polonium?"})
    print(outcome.text)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from dsh_lightrag.blocking import BlockingToolbox
    from dsh_lightrag.dispatch import Access, Dispatcher, Outcome, Tool
    from dsh_lightrag.errors import (
        Code,
        ConfigurationError,
        LightRagError,
        MissingExtraError,
        UnknownToolError,
    )
    from dsh_lightrag.settings import LightRagSettings
    from dsh_lightrag.tools.catalog import TOOLS, toolbox

__all__ = [
    "TOOLS",
    "Access",
    "BlockingToolbox",
    "Code",
    "ConfigurationError",
    "Dispatcher",
    "LightRagError",
    "LightRagSettings",
    "MissingExtraError",
    "Outcome",
    "Tool",
    "UnknownToolError",
    "__version__",
    "toolbox",
]

_HOMES = {
    "TOOLS": "tools.catalog",
    "Access": "dispatch",
    "BlockingToolbox": "blocking",
    "Code": "errors",
    "ConfigurationError": "errors",
    "Dispatcher": "dispatch",
    "LightRagError": "errors",
    "LightRagSettings": "settings",
    "MissingExtraError": "errors",
    "Outcome": "dispatch",
    "Tool": "dispatch",
    "UnknownToolError": "errors",
    "toolbox": "tools.catalog",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for.

    `dsh-lightrag mcp` must take hold of stdout before pydantic and the like are imported, and
    this file runs before any of its code does.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
