"""`tools` and `call`: the catalog and single calls for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import from_json
from rich.table import Table
from rich.text import Text

from dsh_lightrag.cli.calls import attempt, envelope
from dsh_lightrag.cli.files import STDIN, read_bytes
from dsh_lightrag.cli.options import Load  # noqa: TC001 - Typer reads annotations when it runs
from dsh_lightrag.cli.terminal import show, waiting, write_json, write_line
from dsh_lightrag.errors import LightRagError
from dsh_lightrag.text import nearest
from dsh_lightrag.tools.catalog import TOOLS, toolbox

if TYPE_CHECKING:
    from dsh_lightrag.dispatch import AnyTool


def tools(
    load: Load,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """List the tools that would be registered."""
    settings = load()
    registered = toolbox(settings).tools
    if as_json:
        write_json({"tools": [described(tool) for tool in registered]})
        return 0
    table = Table("tool", "access", "title", box=None, pad_edge=False)
    for tool in registered:
        table.add_row(tool.name, tool.access.value, tool.title)
    show(table)
    for tool in TOOLS:
        if key := tool.switch.missing(settings):
            show(Text(f"not registered: {tool.name} ({key} is off)", style="dim"))
    return 0


def described(tool: AnyTool) -> dict[str, Any]:
    """Return a tool as programs read it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "access": tool.access.value,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "digest": tool.digest,
    }


def call(
    load: Load,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="As `tools` lists it.")],
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="Its arguments; - reads them from stdin.")
    ] = "{}",
    *,
    text: Annotated[
        bool, typer.Option("--text", help="Print what a model would read instead of JSON.")
    ] = False,
) -> int:
    """Call one tool; stdout is one JSON object."""
    given = read_arguments(arguments)
    require_known(tool)
    settings = load()
    with waiting(tool):
        ending = attempt(settings, tool, given)
    failed = isinstance(ending, LightRagError)
    if text:
        write_line(str(ending) if isinstance(ending, LightRagError) else ending.text)
    else:
        write_json(envelope(tool, ending))
    return int(failed)


def require_known(name: str) -> None:
    """Refuse a name that is in no catalog.

    Raises:
        typer.BadParameter: naming the nearest one.
    """
    known = [tool.name for tool in TOOLS]
    if name not in known:
        near = nearest(name, known)
        mend = f"did you mean {near}?" if near else f"known: {', '.join(known)}."
        raise typer.BadParameter(f"{name!r} is no tool; {mend}", param_hint="TOOL")


def read_arguments(text: str) -> Any:
    """Read the JSON of a call; what value it is, the tool judges.

    Raises:
        typer.BadParameter: it is no JSON.
    """
    try:
        data = read_bytes(None) if text == STDIN else text.encode()
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:  # a UnicodeEncodeError is one
        place = "" if isinstance(error, UnicodeError) else f" ({error})"
        raise typer.BadParameter(f"the arguments are no JSON{place}.", param_hint="JSON") from None
