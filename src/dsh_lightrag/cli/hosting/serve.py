"""`serve`: LightRAG's HTTP API over a data folder, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dsh_lightrag.cli.hosting.flags import Hosting, keeper_of, server_settings
from dsh_lightrag.cli.terminal import show
from dsh_lightrag.flags import secret_of

if TYPE_CHECKING:
    from pathlib import Path

Host = Annotated[str, typer.Option(help="Address to listen on; off loopback it needs a key.")]
Port = Annotated[int, typer.Option(help="Port; 0 takes a free one.")]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Variable that holds the key that clients must send."),
]


def serve(  # noqa: PLR0913 - one per flag
    hosting: Hosting,
    *,
    host: Host = "127.0.0.1",
    port: Port = 9621,
    api_key_env: ApiKeyEnv = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A further name in Host headers.")
    ] = None,
    allowed_origin: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Web pages of this origin may ask.")
    ] = None,
    web_ui: Annotated[
        bool, typer.Option("--web-ui", help="Serve LightRAG's own web page too (extra lightrag).")
    ] = False,
) -> int:
    """Serve the bases of a data folder over LightRAG's HTTP API, without a key or a model."""
    key = secret_of("--api-key-env", api_key_env, os.environ) if api_key_env else ""
    page = _web_page() if web_ui else None
    keeper = keeper_of(hosting)
    settings = server_settings(
        hosting,
        host=host,
        port=port,
        api_key=key,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        web_ui=page,
    )
    from dsh_lightrag.server.serve import serve as run_server  # noqa: PLC0415 - loaded when used

    def listening(url: str) -> None:
        show(Text(f"Serving {hosting.data} at {url} until Ctrl-C."))
        if page:
            show(Text(f"LightRAG's web page is at {url} too."))

    asyncio.run(run_server(keeper, settings, listening))
    return 0


def _web_page() -> Path:
    from dsh_lightrag.server import web_ui  # noqa: PLC0415 - loaded when used

    return web_ui.installed_folder()
