"""`query`, `documents`, `status`, `insert`, `scan`, `delete`: the same tools for people."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsh_lightrag.cli.calls import attempt, envelope
from dsh_lightrag.cli.files import STDIN, read_bytes
from dsh_lightrag.cli.options import Load  # noqa: TC001 - as above
from dsh_lightrag.cli.terminal import complain, for_people, show, waiting, write_json
from dsh_lightrag.cli.views import rendered
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.tools import delete as delete_tool
from dsh_lightrag.tools import documents as documents_tool
from dsh_lightrag.tools import insert as insert_tool
from dsh_lightrag.tools import query as query_tool
from dsh_lightrag.tools import scan as scan_tool
from dsh_lightrag.tools import status as status_tool
from dsh_lightrag.wire import Mode, Status  # noqa: TC001 - as above

if TYPE_CHECKING:
    from dsh_lightrag.dispatch import AnyTool, Outcome
    from dsh_lightrag.settings import LightRagSettings

Json = Annotated[bool, typer.Option("--json", help="The one JSON object that `call` prints.")]


def query(  # noqa: PLR0913 - one per argument of the tool
    load: Load,
    question: Annotated[str, typer.Argument(help="The question, in a full sentence.")],
    *,
    mode: Annotated[Mode | None, typer.Option(help="How to retrieve.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Items to retrieve, 1 to 200.")] = None,
    with_content: Annotated[
        bool, typer.Option("--with-content", help="Also show the retrieved passages.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Ask the knowledge base a question."""
    arguments = {"question": question, "mode": mode, "topK": top_k, "withContent": with_content}
    return _call(load(), query_tool.TOOL, arguments, as_json=as_json)


def documents(
    load: Load,
    *,
    status: Annotated[
        Status | None, typer.Option(help="Only those in this state.", case_sensitive=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="How many at most.")] = None,
    as_json: Json = False,
) -> int:
    """List the documents, newest first."""
    arguments = {"status": status, "limit": limit}
    return _call(load(), documents_tool.TOOL, arguments, as_json=as_json)


def status(load: Load, *, as_json: Json = False) -> int:
    """Check server, key and what is ingested."""
    ending = _ending(load(), status_tool.TOOL, {})
    failed = _tell(status_tool.TOOL, ending, as_json=as_json)
    # A wrong key is a result of the tool, but no good ending for a script that asks.
    without_counts = not isinstance(ending, LightRagError) and "countsError" in ending.structured
    return int(failed or without_counts)


def insert(
    load: Load,
    text: Annotated[str | None, typer.Argument(help="The text; - reads it from stdin.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read it from a UTF-8 file instead.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The name to file it under; the file's own by default.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Insert a text (--enable writes)."""
    if (text is None) == (file is None):
        raise typer.BadParameter("give either a text, or - for stdin, or --file.")
    settings = load()
    if insert_tool.TOOL.switch.missing(settings):  # before a large file is read for nothing
        return _call(settings, insert_tool.TOOL, {}, as_json=as_json)
    if file is not None and source is None:
        source = file.name
    most = settings.writes.max_text_bytes
    try:
        arguments = {"text": _text(text, file, most), "source": source}
    except LightRagError as error:
        return _tell(insert_tool.TOOL, error, as_json=as_json)
    return _call(settings, insert_tool.TOOL, arguments, as_json=as_json)


def scan(load: Load, *, as_json: Json = False) -> int:
    """Take in the server's input folder (--enable writes)."""
    return _call(load(), scan_tool.TOOL, {}, as_json=as_json)


def delete(
    load: Load,
    document_id: Annotated[str, typer.Argument(help="Its id (doc-…), as `documents` lists it.")],
    *,
    as_json: Json = False,
) -> int:
    """Delete a document by its id (--enable writes)."""
    return _call(load(), delete_tool.TOOL, {"documentId": document_id}, as_json=as_json)


# --- one call ---------------------------------------------------------------------------------


def _call(
    settings: LightRagSettings, tool: AnyTool, arguments: dict[str, Any], *, as_json: bool
) -> int:
    status = _tell(tool, _ending(settings, tool, arguments), as_json=as_json)
    if not as_json and (key := tool.switch.missing(settings)):
        complain(f"Here: {_SWITCHED_ON_BY[key]}.")
    return status


_SWITCHED_ON_BY = {
    "enabled": "the plugin as a whole is off; set LIGHTRAG_ENABLED=true",
    "writes.enabled": "give --enable writes, or set LIGHTRAG_WRITES__ENABLED=true",
}


def _ending(
    settings: LightRagSettings, tool: AnyTool, arguments: dict[str, Any]
) -> Outcome | LightRagError:
    with waiting(f"{tool.title} …"):
        return attempt(settings, tool.name, arguments)


def _tell(tool: AnyTool, ending: Outcome | LightRagError, *, as_json: bool) -> int:
    """Print how a call ended; return the exit status."""
    if as_json:
        write_json(envelope(tool.name, ending))
    elif isinstance(ending, LightRagError):
        complain(for_people(str(ending)))
    else:
        show(*rendered(tool, ending))
    return int(isinstance(ending, LightRagError))


# --- the text to insert -----------------------------------------------------------------------


def _text(text: str | None, file: Path | None, most: int) -> str:
    """Return the text of the argument, or the UTF-8 text of the file or stdin.

    Raises:
        LightRagError: `too-large`, as the tool would say if it were given the whole.
        typer.BadParameter: it cannot be read, or is no UTF-8 text.
    """
    if file is None and text != STDIN:
        return str(text)
    name = "stdin" if file is None else file.name
    data = read_bytes(file, most + len(_BOM) + 1, "--file").removeprefix(_BOM)
    if len(data) > most:
        raise LightRagError(
            Code.TOO_LARGE,
            f"{name} has more than {most} bytes, which is what this deployment takes.",
            hint="Split the text and insert each part under a source of its own.",
        )
    if b"\0" in data:
        raise typer.BadParameter(f"{name} is binary. {_NOT_TEXT}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{name} is not UTF-8 text (byte {error.start}). {_NOT_TEXT}"
        ) from None


_BOM = b"\xef\xbb\xbf"
_NOT_TEXT = (
    "Convert it to UTF-8 text, or place the file in the server's input folder and run "
    "`dsh-lightrag scan`."
)
