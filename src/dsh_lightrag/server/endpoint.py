"""Where a model is, and how it is asked: one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.origin import parse_base_path, parse_origin


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at an address; two of them share nothing.

    Attributes:
        url: the address up to `/chat/completions`, as in `https://api.example.com/v1`.
        model: the model's name there.
        key_env: the environment variable that holds the key; empty for none.
        timeout_s: how long one attempt may be silent.
        attempts: how often a request is tried while the endpoint may recover; twice when
            somebody waits for it.
        concurrency: requests at once, over all workspaces: half for background work, half for
            people who wait.
        dimension: length of the vectors; 0 asks the endpoint once.
    """

    url: str
    model: str
    key_env: str = ""
    timeout_s: float = 60.0
    attempts: int = 4
    concurrency: int = 8
    dimension: int = 0

    def __post_init__(self) -> None:
        """Refuse an address that is none, and a key that is not there."""
        scheme, _, rest = self.url.partition("://")
        authority, slash, path = rest.partition("/")
        try:
            parse_origin(f"{scheme}://{authority}")
            parse_base_path(f"{slash}{path}".rstrip("/"))
        except ValueError as wrong:
            raise ConfigurationError(
                "url", f"{wrong}", "Write it as in https://api.example.com/v1."
            ) from None
        if self.key_env and not os.environ.get(self.key_env):
            raise ConfigurationError(
                self.key_env, "is not set.", "Put the endpoint's key into this variable."
            )
