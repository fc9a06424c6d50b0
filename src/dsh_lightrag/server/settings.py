"""What a server is told at its start: one frozen value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.guard import Entry
from dsh_lightrag.listening import names_of
from dsh_lightrag.origin import Origin

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_WORKSPACE = "default"
MIB = 1024 * 1024
_MOST_PORT = 65535
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a server listens, whom it lets in, and how much it takes.

    Attributes:
        data: the folder that holds every workspace, the inputs and the lock file.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        api_key: what X-API-Key must hold; empty asks for none, which only loopback allows.
        allowed_hosts: what the Host header may name besides loopback and `host`.
        allowed_origins: what the Origin header may hold besides the address that was asked.
        max_body: most bytes of a body.
        max_texts: most bytes of a body that brings texts.
        max_upload: most bytes of an uploaded or scanned file.
        most_open: how many workspaces stay open while nobody uses them.
        idle_s: after how many seconds an unused workspace is closed.
        drop_wait_s: how long the removal of a workspace waits for its users.
        web_ui: the folder of LightRAG's web page; None serves none.

    Raises:
        ConfigurationError: a host off loopback without a key, a port or a key that cannot be.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 9621
    api_key: str = field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body: int = MIB
    max_texts: int = 50 * MIB
    max_upload: int = 100 * MIB
    most_open: int = 64
    idle_s: float = 600.0
    drop_wait_s: float = 10.0
    web_ui: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _MOST_PORT:
            raise ConfigurationError("--port", "is outside 0..65535.", "Write a port, as 9621.")
        if self.api_key and not _KEY.fullmatch(self.api_key):
            raise ConfigurationError(
                "--api-key-env", "The key holds blanks or other than ASCII.", "Make another one."
            )
        if not self.api_key and not self.is_loopback:
            raise ConfigurationError(
                "--host", "is not loopback, so a key is required.", "Set --api-key-env NAME."
            )
        _ = self.entry  # its own rules are broken now or never

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return Origin("http", self.host, self.port).is_loopback

    @property
    def entry(self) -> Entry:
        """Who is let in and with how much, as the guard reads it."""
        return Entry(
            hosts=(*names_of(self.host), *self.allowed_hosts),
            origins=self.allowed_origins,
            max_body=self.max_body,
            larger=(
                (r"/documents/texts?", self.max_texts),
                # A form says more than its file; the route holds the file to its own size.
                (r"/documents/upload", self.max_upload + MIB),
            ),
        )
