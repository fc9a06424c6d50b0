"""How agents are connected to a server, as what a person pastes."""

from __future__ import annotations

import json

KEY = "LIGHTRAG_API_KEY"


def snippets(url: str, key_env: str | None = None) -> str:
    """Return what connects Claude, Cursor and the harness; a key is named, never written."""
    environment = {"LIGHTRAG_ENDPOINT": url} | ({KEY: f"${{env:{key_env}}}"} if key_env else {})
    server = {"command": "dsh-lightrag", "args": ["mcp"], "env": environment}
    cursor = json.dumps({"mcpServers": {"lightrag": server}})
    key = f' --env {KEY}="${key_env}"' if key_env else ""
    harness_key = f" --api-key-env {key_env}" if key_env else ""
    return (
        "Claude Code:\n"
        f"  claude mcp add --env LIGHTRAG_ENDPOINT={url}{key} --transport stdio lightrag"
        " -- dsh-lightrag mcp\n"
        f"Cursor, .cursor/mcp.json:\n  {cursor}\n"
        "DeepSeek Harness:\n"
        f"  dsh-lightrag dsh-patch --endpoint {url}{harness_key} > lightrag.patch.yml\n"
        "This shell:\n"
        f"  export LIGHTRAG_ENDPOINT={url}"
    )
