"""What a keeper of LightRAG's core is built from, and what of it cannot work."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from dsh_lightrag.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dsh_lightrag.server.endpoint import Endpoint

_URL = "the database URL"
# libpq's parameters of a URL, and LightRAG's variables for them.
_PARAMETERS = {
    "host": "POSTGRES_HOST",
    "port": "POSTGRES_PORT",
    "user": "POSTGRES_USER",
    "password": "POSTGRES_PASSWORD",
    "dbname": "POSTGRES_DATABASE",
    "sslmode": "POSTGRES_SSL_MODE",
    "sslcert": "POSTGRES_SSL_CERT",
    "sslkey": "POSTGRES_SSL_KEY",
    "sslrootcert": "POSTGRES_SSL_ROOT_CERT",
    "sslcrl": "POSTGRES_SSL_CRL",
}


class Graph(StrEnum):
    """Where PostgreSQL keeps the graph, by LightRAG's names."""

    TABLES = "PGTableGraphStorage"  # plain tables, no extension
    AGE = "PGGraphStorage"  # Apache AGE below 1.8, which LightRAG refuses


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What a keeper is built from.

    Attributes:
        data: the server's folder; workspaces on files lie in `lightrag/<workspace>/` in it.
        chat: the chat model: LightRAG indexes nothing without one.
        embedder: the embedding model, of this machine or at an endpoint; a workspace remembers
            it and refuses another one.
        database_url: a `postgresql://` URL, or empty to keep everything in files.
        graph: where PostgreSQL keeps the graph.
        documents_at_once: how many documents one workspace processes at once.
        database_connections: how many connections the process opens at most.
        cosine_threshold: the likeness below which a vector is no match.
        summary_language: the language of descriptions in the graph.
    """

    data: Path
    chat: Endpoint
    embedder: Literal["minilm", "static"] | Endpoint = "minilm"
    database_url: str = field(default="", repr=False)
    graph: Graph = Graph.TABLES
    documents_at_once: int = 2
    database_connections: int = 20
    cosine_threshold: float = 0.2
    summary_language: str = "English"

    @property
    def folder(self) -> Path:
        """The folder that LightRAG works in; on PostgreSQL it stays empty."""
        return self.data / "lightrag"


def refuse_workspace_variables(environment: Mapping[str, str]) -> None:
    """Refuse variables that would merge workspaces.

    LightRAG lets a storage's variable (`POSTGRES_WORKSPACE`) win over the workspace that its
    object was made with: all knowledge bases would be read and dropped as one.

    Raises:
        ConfigurationError: naming the first such variable.
    """
    for name in sorted(environment):
        if name.upper().endswith("_WORKSPACE") and environment[name]:
            raise ConfigurationError(
                name,
                "is set, and LightRAG would keep every workspace under that one name, so that "
                "one knowledge base would be read, answered from and deleted as another.",
                "Unset it.",
            )


def database_variables(url: str) -> dict[str, str]:
    """Return LightRAG's variables for a database URL, the unused ones empty.

    An empty variable keeps LightRAG from reading a `config.ini` in the working folder for it.

    Raises:
        ConfigurationError: it is no `postgresql://` URL, or has a part that would not be used.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # brackets that do not close, a port that is no number
        parts, port = urlsplit(""), None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(_URL, "is no PostgreSQL URL.", "Write postgresql://host/name.")
    given = {
        "host": parts.hostname or "",
        "port": str(port or ""),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "dbname": unquote(parts.path.lstrip("/")),
    }
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in _PARAMETERS:
            raise ConfigurationError(
                _URL,
                f"has the parameter {key!r}, which LightRAG would not use.",
                f"It may have: {', '.join(_PARAMETERS)}.",
            )
        given[key] = value
    usual = {"host": "localhost", "port": "5432", "user": "postgres"}
    usual["dbname"] = given["user"] or usual["user"]
    return {
        variable: given.get(key) or usual.get(key, "") for key, variable in _PARAMETERS.items()
    } | {"POSTGRES_WORKSPACE": ""}
