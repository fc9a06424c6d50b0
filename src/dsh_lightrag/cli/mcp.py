"""`mcp`, so that help lists it; `__main__` goes there before Typer is imported."""

from __future__ import annotations

import typer  # noqa: TC002 - Typer reads annotations when it runs

# Its parser is the face's own, and its help too.
AS_GIVEN = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def mcp(context: typer.Context) -> int:
    """Serve the tools over the Model Context Protocol, by stdio or HTTP.

    dsh-lightrag mcp --help lists its flags.
    """
    from dsh_lightrag.faces.mcp.command import main  # noqa: PLC0415 - its parser is costly
    from dsh_lightrag.faces.mcp.wire import claim_wire  # noqa: PLC0415 - as above

    return main(context.args, claim_wire())
