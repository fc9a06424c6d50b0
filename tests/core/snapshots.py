"""What agents are told of each tool, as files: a change of the interface is a diff to review.

Rewrite them with `python -m tests.core.snapshots` from the project's root.
"""

from __future__ import annotations

import json
from pathlib import Path

from dsh_lightrag import TOOLS

FOLDER = Path(__file__).parent.parent / "data" / "schemas"


def told(tool):
    """Return what hosts pass on to agents, as the text of a file."""
    facts = {
        "name": tool.name,
        "title": tool.title,
        "access": tool.access.value,
        "annotations": tool.annotations,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
    }
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write one file per tool, and none for a tool that is gone."""
    for stale in FOLDER.glob("*.json"):
        stale.unlink()
    for tool in TOOLS:
        (FOLDER / f"{tool.name}.json").write_text(told(tool), encoding="utf-8")


if __name__ == "__main__":
    main()
