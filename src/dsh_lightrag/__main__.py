"""The command `dsh-lightrag`, also as `python -m dsh_lightrag`."""

from __future__ import annotations

import gc
import os
import signal
import sys

INTERRUPTED = 130  # what a shell says of a process that SIGINT ended


def main() -> None:
    """Run the command line; an interrupt while it is still being imported is no fault either."""
    try:
        _end_at_once_when_interrupted()
        if sys.argv[1:2] == ["mcp"]:
            sys.exit(_mcp(sys.argv[2:]))
        from dsh_lightrag.cli import run  # noqa: PLC0415 - Typer and Rich are loaded only when used

        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _end_at_once_when_interrupted() -> None:
    """End without an exception, which extension modules lose or tell as a fault of their own.

    A server has nothing to save either, so `mcp` keeps to it. Where SIGINT is ignored it stays so:
    a shell has said that of a background job.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)


def _mcp(arguments: list[str]) -> int:
    """Serve the tools; nothing is imported before the wire is claimed, and never Typer or Rich."""
    from dsh_lightrag.faces.mcp.wire import claim_wire, let_unwritable_go  # noqa: PLC0415 - as above

    wire = claim_wire()
    gc.disable()  # what imports make is no garbage: this saves a tenth of the start
    try:
        from dsh_lightrag.faces.mcp.command import main as serve  # noqa: PLC0415 - as above

        return serve(arguments, wire)
    finally:
        let_unwritable_go()


if __name__ == "__main__":
    main()
