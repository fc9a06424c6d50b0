"""The command `dsh-lightrag`, also as `python -m dsh_lightrag`."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130  # what a shell says of a process that SIGINT ended


def main() -> None:
    """Run the command line; an interrupt while it is still being imported is no fault either."""
    try:
        if sys.argv[1:2] == ["mcp"]:
            sys.exit(_mcp(sys.argv[2:]))
        from dsh_lightrag.cli import run  # noqa: PLC0415 - Typer and Rich are loaded only when used

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _mcp(arguments: list[str]) -> int:
    """Serve the tools; nothing is imported before the wire is claimed, and never Typer or Rich."""
    from dsh_lightrag.faces.mcp.wire import claim_wire  # noqa: PLC0415 - as above

    wire = claim_wire()
    gc.disable()  # what imports make is no garbage: this saves a tenth of the start
    from dsh_lightrag.faces.mcp.command import main as serve  # noqa: PLC0415 - as above

    return serve(arguments, wire)


if __name__ == "__main__":
    main()
