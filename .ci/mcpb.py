"""Writes the MCP bundle, a file that Claude Desktop and other hosts install by a double click.

    python .ci/mcpb.py [FOLDER]      # dist/dsh-lightrag-<version>.mcpb

The bundle holds no code of ours: its pyproject.toml names the released package of this version,
and the host's uv installs it. Version, name and variables come from server.json.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENTRY = "server.py"
SERVER = '''"""Starts the MCP server of the package that pyproject.toml names."""

import sys

from dsh_lightrag.__main__ import main

sys.argv[1:1] = ["mcp"]
main()
'''


def manifest(registry: dict[str, Any], tools: list[dict[str, str]]) -> dict[str, Any]:
    """Return manifest.json; what a person may set is what server.json lists."""
    package = registry["packages"][0]
    variables = package["environmentVariables"]
    asked = {one["name"].lower(): one for one in variables}
    return {
        "manifest_version": "0.4",
        "name": package["identifier"],
        "display_name": registry["title"],
        "version": registry["version"],
        "description": registry["description"],
        "author": {"name": "The dsh-lightrag authors"},
        "license": "MIT",
        "server": {
            "type": "uv",
            "entry_point": ENTRY,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", ENTRY],
                "env": {one["name"]: f"${{user_config.{name}}}" for name, one in asked.items()},
            },
        },
        "tools": tools,
        "tools_generated": True,
        "user_config": {name: _field(one) for name, one in asked.items()},
        "compatibility": {"runtimes": {"python": ">=3.11"}},
    }


def _field(variable: dict[str, Any]) -> dict[str, Any]:
    kind = "boolean" if variable.get("choices") == ["true", "false"] else "string"
    default: Any = variable.get("default", "")
    return {
        "type": kind,
        "title": variable["name"].removeprefix("LIGHTRAG_").replace("_", " ").capitalize(),
        "description": variable["description"],
        "required": False,
        "default": default == "true" if kind == "boolean" else default,
        **({"sensitive": True} if variable.get("isSecret") else {}),
    }


def project(version: str) -> str:
    """Return the bundle's pyproject.toml."""
    return (
        f'[project]\nname = "dsh-lightrag-bundle"\nversion = "{version}"\n'
        f'requires-python = ">=3.11"\ndependencies = ["dsh-lightrag[mcp]=={version}"]\n'
    )


def write(folder: Path) -> Path:
    """Write the bundle and return where."""
    from dsh_lightrag import LightRagSettings, toolbox  # noqa: PLC0415 - the package in question

    registry = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    tools = [
        {"name": tool.name, "description": tool.title} for tool in toolbox(LightRagSettings()).tools
    ]
    files = {
        "manifest.json": json.dumps(manifest(registry, tools), indent=2),
        "pyproject.toml": project(registry["version"]),
        ENTRY: SERVER,
    }
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / f"dsh-lightrag-{registry['version']}.mcpb"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return bundle


if __name__ == "__main__":
    print(write(Path(sys.argv[1] if sys.argv[1:] else "dist")))
