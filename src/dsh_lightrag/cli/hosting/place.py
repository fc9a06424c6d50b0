"""Which server a command speaks to: the one named, the data folder's own, or one of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsh_lightrag.cli.hosting.own_server import own_server
from dsh_lightrag.errors import ConfigurationError, needs_extra
from dsh_lightrag.server.workspaces import bases_folder
from dsh_lightrag.settings import LightRagSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsh_lightrag.cli.hosting.flags import Hosting


def served_at(data: Path) -> str | None:
    """Return the URL of the server that serves a data folder now."""
    with needs_extra("server", "A data folder"):
        from dsh_lightrag.server.lock import running_server  # noqa: PLC0415 - loaded when used

    running = running_server(data)
    return running.url if running else None


@contextmanager
def reached(settings: LightRagSettings, hosting: Hosting) -> Iterator[LightRagSettings]:
    """Yield settings whose endpoint answers for the place that was named.

    An endpoint counts where no data folder was named. The server of a data folder is the one that
    runs; where none does, one runs inside this.
    """
    if not hosting.named and "endpoint" in settings.model_fields_set:
        yield settings
        return
    if url := served_at(hosting.data):
        yield pointed(settings, url)
        return
    if settings.workspace and hosting.backend == "embedded":
        _require_base(hosting.data, settings.workspace)
    with own_server(hosting) as url:
        yield pointed(settings, url)


def pointed(settings: LightRagSettings, url: str) -> LightRagSettings:
    """Return the same settings for another endpoint."""
    row = settings.model_dump() | {"endpoint": url, "base_path": "", "api_key": settings.api_key}
    return LightRagSettings(**row)


def _require_base(data: Path, workspace: str) -> None:
    if not (bases_folder(data) / workspace).is_dir():
        raise ConfigurationError(
            "--workspace",
            "names no base of this data folder.",
            "Make it with `dsh-lightrag bases create`.",
        )
