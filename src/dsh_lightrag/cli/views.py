"""How people see a result: the tool's own verdict, and its data as text and tables.

Retrieved text is printed as it is, never as markup, which could draw and link as it pleases.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dsh_lightrag.cli.terminal import for_people
from dsh_lightrag.tools import delete, documents, insert, query, scan, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from dsh_lightrag.dispatch import AnyTool, Outcome

STATE_STYLES = {"processed": "green", "failed": "red"}


def rendered(tool: AnyTool, outcome: Outcome) -> Iterator[RenderableType]:
    """Yield a result for people: verdict, data, advice; without a view, as a model reads it."""
    view = VIEWS.get(tool.name)
    if view is None:
        yield Text(outcome.text)
        return
    result = tool.result.model_validate(outcome.structured, by_alias=True, by_name=False)
    form = tool.show(result)
    yield Text(for_people(form.summary), style="bold")
    yield from view(result)
    if form.advice:
        yield Text(for_people(form.advice), style="dim")


def _answer(result: query.QueryResult) -> Iterator[RenderableType]:
    yield Text("")
    yield Text(result.answer)
    yield Text("")
    for source in result.references:
        yield Text(f"[{source.reference_id or '-'}] {source.file_path or 'unknown source'}")
        for passage in source.content:
            yield Text(textwrap.indent(passage, "    "), style="dim")


def _listing(result: documents.DocumentsResult) -> Iterator[RenderableType]:
    table = _table("state", "source", "chunks", "updated", "id")
    for document in result.documents:
        table.add_row(
            Text(document.status, style=STATE_STYLES.get(document.status, "yellow")),
            Text(document.file_path or "unknown source"),
            str(document.chunks_count),
            Text((document.updated_at or "unknown")[:19]),  # to the second
            Text(document.id),
        )
    if result.documents:
        yield table
    for document in result.documents:
        if document.error_message is not None:
            reason = " ".join(document.error_message.split())
            yield Text(f"{document.file_path or document.id}: {reason}", style="red")
    yield Text("whole base: " + _counts(result.status_counts))


def _state(result: status.StatusResult) -> Iterator[RenderableType]:
    facts = {
        "status": result.status,
        "LightRAG": f"{result.core_version or 'unknown'} (API {result.api_version or 'unknown'})",
        "accounts": result.auth_mode or "unknown",
        "pipeline": "busy" if result.pipeline_busy else "idle",
        "documents": _counts(result.status_counts),
    }
    if result.counts_error is not None:
        facts["documents"] = f"{result.counts_error.code}: {result.counts_error.message}"
    yield _facts(facts)


def _inserted(result: insert.InsertResult) -> Iterator[RenderableType]:
    yield _facts(
        {
            "source": result.source,
            "document id": result.document_id,
            "track id": result.track_id or "none",
            "server": f"{result.status}: {result.message}",
        }
    )


def _scanned(result: scan.ScanResult) -> Iterator[RenderableType]:
    server = f"{result.status}: {result.message}"
    yield _facts({"track id": result.track_id or "none", "server": server})


def _deleted(result: delete.DeleteResult) -> Iterator[RenderableType]:
    server = f"{result.status}: {result.message}"
    yield _facts({"document id": result.doc_id or "unknown", "server": server})


VIEWS: dict[str, Callable[[Any], Iterator[RenderableType]]] = {
    query.TOOL.name: _answer,
    documents.TOOL.name: _listing,
    status.TOOL.name: _state,
    insert.TOOL.name: _inserted,
    scan.TOOL.name: _scanned,
    delete.TOOL.name: _deleted,
}


# --- parts ------------------------------------------------------------------------------------


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")  # an id that is cut cannot be copied
    return table


def _facts(facts: dict[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    return grid


def _counts(counts: dict[str, int]) -> str:
    """Tell the states that documents are in."""
    return ", ".join(f"{state} {count}" for state, count in counts.items() if count) or "none"
