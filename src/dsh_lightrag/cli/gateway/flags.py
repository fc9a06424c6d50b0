"""What the gateway's commands take: secrets by the names of their variables, never themselves."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import Annotated, Any

import typer

from dsh_lightrag.cli.gateway.place import Running, running_gateway
from dsh_lightrag.cli.hosting.flags import data_folder
from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.flags import secret_of
from dsh_lightrag.settings import LightRagSettings

DATABASE_VARIABLE = "DSH_GATEWAY_DATABASE_URL"
SERVER_KEY_VARIABLE = "DSH_GATEWAY_SERVER_KEY"
PORT = 9630
AUDIT_DAYS = 365
# The gateway's own folder inside the data folder.
FOLDER = "gateway"

DatabaseUrlEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"Variable that holds the database's URL; {DATABASE_VARIABLE} where that is set.",
        show_default=False,
    ),
]
ServerUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The knowledge server's address.", show_default=False),
]
ServerKeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"Variable that holds the server's key; {SERVER_KEY_VARIABLE} where that is set.",
        show_default=False,
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST", help="A further name in Host headers; repeat it."),
]
AllowedOrigin = Annotated[
    list[str] | None,
    typer.Option(metavar="ORIGIN", help="Let web pages of this origin in; repeat it."),
]
AuditDays = Annotated[
    int, typer.Option(metavar="N", min=1, max=36_500, help="How long an audit entry is kept.")
]


def gateway_folder(data: Path | None) -> Path:
    """Return the folder of a gateway on this machine."""
    return data_folder(data)[0] / FOLDER


def named_database(variable: str | None) -> str | None:
    """Return the database's URL where a variable names one.

    Raises:
        ConfigurationError: the variable that was named holds none.
    """
    if variable is not None:
        return secret_of("--database-url-env", variable, os.environ)
    return os.environ.get(DATABASE_VARIABLE) or None


def database_url(variable: str | None, data: Path | None) -> str:
    """Return the database's URL: the one named, or that of the gateway that runs here.

    Raises:
        ConfigurationError: there is neither.
    """
    named = named_database(variable)
    if named is not None:
        return named
    running = running_here(data)
    if running is None:
        raise ConfigurationError(
            "--database-url-env",
            "is missing, and no gateway runs on this data folder.",
            f"Set {DATABASE_VARIABLE}, or run `dsh-lightrag gateway up`.",
        )
    return running.database_url


def running_here(data: Path | None) -> Running | None:
    """Return the gateway that runs on a data folder."""
    return running_gateway(gateway_folder(data))


def server_settings(url: str | None, key_variable: str | None) -> LightRagSettings:
    """Return how the knowledge server is reached.

    Raises:
        ConfigurationError: no URL, or one that cannot be.
    """
    if url is None:
        raise ConfigurationError(
            "--server-url", "is missing.", "Name a server that `dsh-lightrag serve` runs."
        )
    row: dict[str, Any] = {"endpoint": url}
    if key_variable is not None:
        row["api_key"] = secret_of("--server-key-env", key_variable, os.environ)
    elif os.environ.get(SERVER_KEY_VARIABLE):
        row["api_key"] = os.environ[SERVER_KEY_VARIABLE]
    return LightRagSettings(**row)
