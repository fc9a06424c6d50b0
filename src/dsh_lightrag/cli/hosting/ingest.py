"""`ingest`: files and folders into a base, once; run again, it goes on where it ended."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from dsh_lightrag.cli.files import named_path
from dsh_lightrag.cli.hosting.base import Base
from dsh_lightrag.cli.hosting.flags import Hosting  # noqa: TC001 - as above
from dsh_lightrag.cli.hosting.ingesting import Ingestion, Outcome
from dsh_lightrag.cli.hosting.ledger import Ledger, ledger_path
from dsh_lightrag.cli.hosting.place import reached
from dsh_lightrag.cli.hosting.report import complain_of, reporting, told
from dsh_lightrag.cli.hosting.sources import sources_of
from dsh_lightrag.cli.options import Load  # noqa: TC001 - as above
from dsh_lightrag.cli.terminal import complain, show, write_json
from dsh_lightrag.errors import LightRagError
from dsh_lightrag.logs import without_info
from dsh_lightrag.loop_thread import run
from dsh_lightrag.prompt.trust import state_folder

if TYPE_CHECKING:
    from dsh_lightrag.cli.hosting.ingesting import Report, Summary
    from dsh_lightrag.cli.hosting.sources import Sources
    from dsh_lightrag.settings import LightRagSettings


def ingest(
    load: Load,
    hosting: Hosting,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", parser=named_path, help="Files and folders."),
    ],
    *,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete the documents of files that are gone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Take files and folders into a base; unchanged ones are skipped, changed ones replaced.

    Through the server of the data folder, or --endpoint; where none runs, without one.
    """
    settings = load()
    sources = sources_of(paths)
    with reached(settings, hosting) as there:
        ledger = ledger_of(settings, hosting, there)
        with without_info(), reporting() as report:
            summary = run(ingested(there, ledger, sources, report, prune=prune))
    if as_json:
        write_json(
            {
                "ok": not summary.failures,
                "counts": {one.value: summary.counts[one] for one in Outcome},
                "failures": summary.failures,
                "leftOut": sources.left_out,
            }
        )
    else:
        _show(summary, sources)
    return int(bool(summary.failures))


def ledger_of(settings: LightRagSettings, hosting: Hosting, there: LightRagSettings) -> Ledger:
    """Open the ledger: in the data folder, or for a server elsewhere in the state folder."""
    if there is settings:
        return Ledger(ledger_path(state_folder(), settings.endpoint, settings.workspace))
    return Ledger(ledger_path(hosting.data, "", settings.workspace))


async def ingested(
    settings: LightRagSettings, ledger: Ledger, sources: Sources, report: Report, *, prune: bool
) -> Summary:
    """Run one ingestion.

    Raises:
        LightRagError: the server cannot be asked.
    """
    from dsh_lightrag.transport import Transport  # noqa: PLC0415 - loads the HTTP client

    async with Transport(settings.connection) as transport:
        ingestion = Ingestion(Base(transport, settings), ledger)
        try:
            return await ingestion.run(sources, report, follow_deletions=prune)
        except* LightRagError as errors:
            raise _first(errors) from None


def _first(group: BaseExceptionGroup[LightRagError]) -> LightRagError:
    """Return one of the errors of tasks that failed for the same reason."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _show(summary: Summary, sources: Sources) -> None:
    show(told(summary))
    if sources.left_out:
        complain(f"{sources.left_out} files of other types were left out.")
    complain_of(summary)
