"""Frozen settings that fail while loading, naming the key and the mend.

`LightRagSettings(**row)` is complete in itself: the environment adds nothing to it but the
`apiKey` fallback, so that no variable can switch writes on in an explicit configuration.
`LightRagSettings.from_env()` alone reads `LIGHTRAG_*`.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from dsh_lightrag.bounds import Bounds
from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.logs import get_logger
from dsh_lightrag.origin import Origin, parse_base_path, parse_origin
from dsh_lightrag.rows import (
    UnknownKeyError,
    by_field_name,
    holds,
    merged,
    read_environment,
    variable_of,
)
from dsh_lightrag.wire import Mode

API_KEY_VARIABLE = "LIGHTRAG_API_KEY"
# Outer blanks are refused too: HTTP would drop them and send another key than was set.
_API_KEY = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_WORKSPACE = re.compile(r"[A-Za-z0-9_.-]{0,128}")


def sendable_key(key: str) -> str:
    """Return a key that an HTTP header can carry as it is.

    Raises:
        ValueError: it cannot; the text does not repeat the key.
    """
    if not _API_KEY.fullmatch(key):
        raise ValueError(
            "holds characters that no HTTP header can carry. Use printable ASCII without "
            "blanks or line breaks at the ends."
        )
    return key


def warn_of_a_key_in_the_clear(origin: Origin) -> None:
    """Log that a key will travel unencrypted, where it leaves this machine."""
    if origin.scheme == "http" and not origin.is_loopback:
        get_logger().warning("settings_key_over_plain_http", endpoint=str(origin))


# --- groups -----------------------------------------------------------------------------------


class Group(BaseModel):
    """A mapping of settings, keyed in camelCase (rows) or snake_case (Python)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, row: object) -> object:
        return by_field_name(cls, row) if isinstance(row, Mapping) else row


def _mode_or_mix(value: object) -> object:
    if value in get_args(Mode):
        return value
    get_logger().warning("settings_unknown_mode", key="query.mode", used="mix")
    return "mix"


class QuerySettings(Group):
    """How dsh_lightrag_query asks, and how much of the answer is passed on."""

    mode: Annotated[Mode, BeforeValidator(_mode_or_mix)] = Field(
        "mix", description="retrieval mode; an unknown value falls back to mix with a warning"
    )
    top_k: Annotated[int, Bounds(20, 1, 200)] = Field(
        20, description="items retrieved per question"
    )
    max_answer_bytes: Annotated[int, Bounds(200_000, 1024, 1_048_576)] = Field(
        200_000, description="UTF-8 bytes of one answer"
    )
    max_content_bytes: Annotated[int, Bounds(48_000, 1024, 1_048_576)] = Field(
        48_000, description="UTF-8 bytes of all chunk text of one result together"
    )


class DocumentsSettings(Group):
    """How much dsh_lightrag_documents lists."""

    max_listed: Annotated[int, Bounds(200, 1, 1000)] = Field(
        200, description="documents in one listing"
    )


class OutputSettings(Group):
    """How long a result is as text."""

    max_text_bytes: Annotated[int, Bounds(48_000, 4096, 1_048_576)] = Field(
        48_000, description="UTF-8 bytes of the text form of one result"
    )


class EvidenceSettings(Group):
    """Whether dsh_lightrag_query_data is there."""

    enabled: StrictBool = Field(
        default=False, description="adds the read tool dsh_lightrag_query_data"
    )


class WritesSettings(Group):
    """Whether the write tools are there."""

    enabled: StrictBool = Field(default=False, description="adds the insert, scan and delete tools")
    max_text_bytes: Annotated[int, Bounds(200_000, 1024, 1_048_576)] = Field(
        200_000, description="UTF-8 bytes of one inserted text"
    )


@dataclass(frozen=True, slots=True)
class Connection:
    """Where requests go and what they carry: all that the transport needs to know."""

    origin: Origin
    base_path: str
    api_key: SecretStr
    workspace: str
    ca_file: Path | None
    use_proxy: bool


# --- the whole --------------------------------------------------------------------------------


class LightRagSettings(BaseModel):
    """Everything a deployment decides; frozen once loaded.

    Raises:
        ConfigurationError: for a value that cannot work; never shows a secret.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    enabled: StrictBool = Field(default=True, description="false registers no tool at all")
    endpoint: str = Field(
        "http://127.0.0.1:9621", description="bare http(s) origin of the LightRAG server"
    )
    api_key: SecretStr = Field(
        SecretStr(""), description="sent as X-API-Key; blank falls back to LIGHTRAG_API_KEY"
    )
    timeout_ms: Annotated[int, Bounds(60_000, 1000, 300_000)] = Field(
        60_000, description="milliseconds for one tool call, connect to last byte"
    )
    query: QuerySettings = Field(default_factory=QuerySettings)
    documents: DocumentsSettings = Field(default_factory=DocumentsSettings)
    output: OutputSettings = Field(default_factory=OutputSettings)
    evidence: EvidenceSettings = Field(default_factory=EvidenceSettings)
    writes: WritesSettings = Field(default_factory=WritesSettings)
    workspace: str = Field(
        "", description="base to use on a server that isolates workspaces; else an error"
    )
    base_path: str = Field("", description="path prefix of a server behind a proxy (/lightrag)")
    ca_file: Path | None = Field(None, description="PEM file of a private certificate authority")
    use_proxy: StrictBool = Field(default=False, description="honour HTTP(S)_PROXY and NO_PROXY")

    def __init__(self, **row: Any) -> None:
        try:
            super().__init__(**by_field_name(type(self), row))
        except ValueError as error:
            raise _configuration_error(error) from None  # the chain would show the input

    @classmethod
    def from_row(cls, row: object) -> Self:
        """Read a profile row, which is any YAML value until proven a mapping.

        Raises:
            ConfigurationError: as the constructor.
        """
        if not isinstance(row, Mapping) or not all(isinstance(key, str) for key in row):
            raise ConfigurationError("config", "must be a mapping from names to settings.", "")
        return cls(**row)

    @classmethod
    def from_env(cls, **overrides: Any) -> Self:
        """Read `LIGHTRAG_*` variables, nested by `__`; `overrides` (a row) win key by key.

        Raises:
            ConfigurationError: naming the variable that cannot work.
        """
        variables = read_environment(cls)
        try:
            given = merged({}, cls, overrides)
        except ValueError as error:
            raise _configuration_error(error) from None  # the chain would show the input
        try:
            return cls(**merged(variables, cls, given))
        except ConfigurationError as error:
            if holds(given, error.key) or not holds(variables, error.key):
                raise
            variable = variable_of(error.key)
            raise ConfigurationError(variable, error.problem, error.mend) from None

    @property
    def connection(self) -> Connection:
        """What the transport is built from."""
        return Connection(
            origin=parse_origin(self.endpoint),
            base_path=self.base_path,
            api_key=self.api_key,
            workspace=self.workspace,
            ca_file=self.ca_file,
            use_proxy=self.use_proxy,
        )

    @field_validator("endpoint", mode="after")
    @classmethod
    def _bare_origin(cls, value: str) -> str:
        return str(parse_origin(value))

    @field_validator("api_key", mode="after")
    @classmethod
    def _sendable_key(cls, value: SecretStr) -> SecretStr:
        key = value.get_secret_value()
        if not key.strip():
            key = os.environ.get(API_KEY_VARIABLE, "")
        return SecretStr(sendable_key(key) if key.strip() else "")

    @field_validator("workspace", mode="after")
    @classmethod
    def _plain_workspace(cls, value: str) -> str:
        if not _WORKSPACE.fullmatch(value):
            raise ValueError("must be letters, digits, '_', '-' and '.', at most 128 of them.")
        return value

    @field_validator("base_path", mode="after")
    @classmethod
    def _plain_base_path(cls, value: str) -> str:
        return parse_base_path(value)

    @field_validator("ca_file", mode="after")
    @classmethod
    def _readable_authority(cls, value: Path | None) -> Path | None:
        if value is not None:
            try:
                ssl.create_default_context(cafile=value)
            except OSError:  # ssl.SSLError is one: a file without a certificate in it
                raise ValueError(
                    "cannot be read as certificates. Name an existing PEM file."
                ) from None
        return value

    @model_validator(mode="after")
    def _warn_of_a_key_in_the_clear(self) -> Self:
        if self.api_key.get_secret_value():
            warn_of_a_key_in_the_clear(parse_origin(self.endpoint))
        return self


# --- errors -----------------------------------------------------------------------------------

# What pydantic says of a type, in the words of a configuration; the rest is said by ValueErrors.
_TYPE_PROBLEMS = {
    "bool_type": "must be true or false, not text or a number.",
    "string_type": "must be text. Put it in quotes.",
    "path_type": "must be a path.",
    "model_type": "must be a mapping of settings.",
}


def _configuration_error(error: ValueError) -> ConfigurationError:
    """Say the first fault by key, problem and mend; a value is never repeated."""
    place: list[str] = []
    cause: object = error
    said = ""
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        cause = fault.get("ctx", {}).get("error")
        place = [to_camel(str(part)) for part in fault["loc"]]
        said = _TYPE_PROBLEMS.get(fault["type"], "")
    if isinstance(cause, UnknownKeyError):
        place.append(cause.key)
    if isinstance(cause, ValueError):
        said = str(cause)
    problem, _, mend = (said or "cannot be used.").partition(". ")
    return ConfigurationError(".".join(place) or "settings", problem.rstrip(".") + ".", mend)
