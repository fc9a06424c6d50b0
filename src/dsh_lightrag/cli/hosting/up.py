"""`up`: serve a folder's files, follow their changes, and tell how agents are connected."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dsh_lightrag.cli.files import named_path
from dsh_lightrag.cli.hosting.base import Base
from dsh_lightrag.cli.hosting.connecting import snippets
from dsh_lightrag.cli.hosting.flags import Hosting  # noqa: TC001 - as above
from dsh_lightrag.cli.hosting.ingesting import Ingestion
from dsh_lightrag.cli.hosting.ledger import Ledger, ledger_path
from dsh_lightrag.cli.hosting.own_server import own_server
from dsh_lightrag.cli.hosting.place import served_at
from dsh_lightrag.cli.hosting.report import Lines, complain_of, reporting, told
from dsh_lightrag.cli.hosting.serve import ApiKeyEnv, Port  # noqa: TC001 - as above
from dsh_lightrag.cli.hosting.sources import sources_of
from dsh_lightrag.cli.hosting.watching import changes_in
from dsh_lightrag.cli.terminal import complain, show, terminated_like_interrupted
from dsh_lightrag.errors import ConfigurationError, LightRagError
from dsh_lightrag.flags import secret_of
from dsh_lightrag.logs import without_info
from dsh_lightrag.loop_thread import run
from dsh_lightrag.settings import LightRagSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.cli.hosting.ingesting import Report


def up(
    hosting: Hosting,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", parser=named_path, help="The folder with your files."),
    ],
    *,
    port: Port = 9621,
    api_key_env: ApiKeyEnv = None,
) -> int:
    """Serve a folder's files until Ctrl-C, and follow what changes in it."""
    if not os.path.isdir(folder):  # noqa: PTH112 - the method raises for a name that is too long
        raise typer.BadParameter(f"{folder} is no folder.", param_hint="DIR")
    if hosting.data.is_relative_to(folder.absolute()) and hosting.named:
        raise ConfigurationError("--data", "lies in the watched folder.", "Keep it elsewhere.")
    key = secret_of("--api-key-env", api_key_env, os.environ) if api_key_env else ""
    with (
        contextlib.suppress(KeyboardInterrupt),
        terminated_like_interrupted(),
        without_info(),  # the server in this process heeds it too
        _server(hosting, port, key) as url,
    ):
        settings = LightRagSettings(endpoint=url, api_key=key)
        show(Text(f"Serving {folder} at {url} until Ctrl-C.", style="bold"))
        show(Text(snippets(url, api_key_env)))
        run(_follow(settings, Ledger(ledger_path(hosting.data, "", "")), folder.absolute()))
    return 0


@contextlib.contextmanager
def _server(hosting: Hosting, port: int, key: str) -> Iterator[str]:
    """Yield the URL of the data folder's server: the one that runs, or one inside this."""
    if url := served_at(hosting.data):
        yield url
    else:
        with own_server(hosting, port=port, api_key=key) as url:
            yield url


async def _follow(settings: LightRagSettings, ledger: Ledger, folder: Path) -> None:
    """Ingest a folder, then again whenever something in it has changed."""
    from dsh_lightrag.transport import Transport  # noqa: PLC0415 - loads the HTTP client

    async with Transport(settings.connection) as transport:
        ingestion = Ingestion(Base(transport, settings), ledger)
        async with contextlib.aclosing(changes_in(folder)) as changes:
            await anext(changes)  # watching has begun: no change falls before the first look
            with reporting() as report:
                await _take_in(ingestion, folder, report)
            async for _ in changes:
                await _take_in(ingestion, folder, Lines())


async def _take_in(ingestion: Ingestion, folder: Path, report: Report) -> None:
    """Bring the base to the state of the folder; what fails is told and tried again later."""
    try:
        summary = await ingestion.run(sources_of([folder]), report, follow_deletions=True)
    except* LightRagError as errors:
        complain(str(errors.exceptions[0]))
    else:
        show(Text(told(summary)))
        complain_of(summary)
