"""Knowledge-base tools for agents over a LightRAG graph-RAG index.

async with toolbox(LightRagSettings(endpoint="http://127.0.0.1:9621")) as tools:
    outcome = await tools.call("dsh_lightrag_query", {"question": "Who found polonium?"})
    print(outcome.text)
"""

from __future__ import annotations

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
from dsh_lightrag.version import __version__

__all__ = [
    "TOOLS",
    "Access",
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
