"""What one middleware is told: where to ask, for how much, and what to do when it fails.

Validated while loading, by key and mend. A pipeline file may be another's, so it cannot name any
variable of the machine as its key: only `LIGHTRAG_*` ones, and those the person running it allows.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from dsh_lightrag.bounds import Bounds
from dsh_lightrag.errors import ConfigurationError, LightRagError
from dsh_lightrag.origin import Origin, parse_base_path, parse_origin
from dsh_lightrag.prompt.durations import DurationRange, in_ms
from dsh_lightrag.question import accepted_question
from dsh_lightrag.rows import UnknownKeyError, by_field_name
from dsh_lightrag.settings import Connection, sendable_key, warn_of_a_key_in_the_clear
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

RetrievalMode = Literal["local", "global", "hybrid", "naive", "mix"]
Policy = Literal["warn", "fail", "skip"]

MAX_LABEL_CHARS = 200
_OWN_VARIABLE = re.compile(r"LIGHTRAG_[A-Z0-9_]*")
_ALLOWED = "allowed_key_variables"


def _number(value: object) -> object:
    """Refuse what is no number: `Bounds` would take it for the default."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("must be a whole number. Write 1 to 200.")
    return value


class RowError(ConfigurationError):
    """A row that cannot work: reads as its first fault, and `faults` holds them all."""

    def __init__(self, faults: list[ConfigurationError]) -> None:
        first = faults[0]
        super().__init__(first.key, first.problem, first.mend)
        self.faults = tuple(faults)


class KnowledgeConfig(BaseModel):
    """The configuration of a `lightrag` middleware; frozen once loaded.

    Raises:
        RowError: with each value that cannot work; never shows a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    endpoint: StrictStr = Field(
        description="bare http(s) origin of the LightRAG server; a path goes into `base_path`"
    )
    base_path: StrictStr = Field("", description="path prefix of a server behind a proxy")
    mode: RetrievalMode = Field(
        "mix", description="local, global, hybrid, naive or mix; bypass retrieves nothing"
    )
    # Read from the right: first whether it is a number, then into the range.
    top_k: Annotated[int, Bounds(10, 1, 200), BeforeValidator(_number)] = Field(
        10, description="items to retrieve; a number outside the range is capped"
    )
    max_context_chars: StrictInt = Field(
        40_000,
        ge=1000,
        le=200_000,
        description="characters of one block, its fence included; the cut keeps head and tail "
        "and marks the gap",
    )
    api_key_env: StrictStr | None = Field(
        None,
        description="variable that holds the key, sent as `X-API-Key`: `LIGHTRAG_*`, others only "
        "with `--allow-key-env`; it must be set",
    )
    timeout: Annotated[StrictStr, DurationRange("500ms", "2h")] = Field(
        "2h", description="one budget for the whole exchange: `500ms`, `30s`, `5m`, `2h`"
    )
    required: StrictBool = Field(
        default=False,
        description="an empty retrieval fails; `on_error` is then `fail` unless it is set",
    )
    on_error: Policy = Field(
        "warn",
        description="warn: log and pass the prompt through; fail: raise; skip: pass through, say "
        "nothing",
    )
    label: StrictStr = Field("Knowledge Graph Context", description="header line of the block")
    query: StrictStr | None = Field(
        None, description="what to retrieve with; by default the task instruction"
    )
    fence: StrictBool = Field(
        default=False,
        description="put the context into a random tag, with a line saying that it is data",
    )

    _api_key: SecretStr = PrivateAttr(SecretStr(""))

    def __init__(self, allowed_key_variables: Collection[str] = (), /, **row: Any) -> None:
        # By position only: no row can name it. pydantic's own constructor takes no context.
        try:
            self.__pydantic_validator__.validate_python(
                row, self_instance=self, context={_ALLOWED: allowed_key_variables}
            )
        except ValidationError as error:
            raise RowError(_faults_of(error)) from None  # the chain would show the input

    @classmethod
    def from_row(cls, row: object, allowed_key_variables: Collection[str] = ()) -> Self:
        """Read a row of a pipeline file, which is any YAML value until proven a mapping.

        Raises:
            ConfigurationError: as the constructor.
        """
        if not isinstance(row, Mapping) or not all(isinstance(key, str) for key in row):
            raise ConfigurationError("lightrag", "must be a mapping from names to values.", "")
        return cls(allowed_key_variables, **row)

    @property
    def origin(self) -> Origin:
        """The one address that is asked."""
        return parse_origin(self.endpoint)

    @property
    def timeout_ms(self) -> int:
        """The budget in milliseconds."""
        return in_ms(self.timeout)

    @property
    def connection(self) -> Connection:
        """What a transport is built from; the environment adds nothing to it."""
        return Connection(
            origin=self.origin,
            base_path=self.base_path,
            api_key=self._api_key,
            workspace="",
            ca_file=None,
            use_proxy=False,
        )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, row: object) -> object:
        """Rename known keys, and let `required` decide on `on_error` where that is not set."""
        if not isinstance(row, Mapping):
            return row
        spellings = {*cls.model_fields, *map(to_camel, cls.model_fields)}
        named = by_field_name(cls, {key: row[key] for key in row if key in spellings}, spell=str)
        # Left in for pydantic, which refuses them beside the values that cannot work.
        named |= {key: row[key] for key in row if key not in spellings}
        if named.get("required") is True:
            named.setdefault("on_error", "fail")
        return named

    @field_validator("endpoint", mode="after")
    @classmethod
    def _bare_origin(cls, value: str) -> str:
        try:
            return str(parse_origin(value))
        except ValueError as error:  # it names keys as the plugin's settings spell them
            said = str(error).replace("basePath", "base_path")
            said = said.replace("Give the key as apiKey", "Name the key's variable as api_key_env")
            raise ValueError(said) from None

    @field_validator("base_path", mode="after")
    @classmethod
    def _plain_base_path(cls, value: str) -> str:
        return parse_base_path(value)

    @field_validator("mode", mode="before")
    @classmethod
    def _retrieving_mode(cls, value: object) -> object:
        if value == "bypass":
            raise ValueError("is bypass, which retrieves nothing. Choose mix, or drop the key.")
        return value

    @field_validator("label", mode="after")
    @classmethod
    def _one_clean_line(cls, value: str) -> str:
        if not value.strip() or clean_line(value) != value or len(value) > MAX_LABEL_CHARS:
            raise ValueError(
                "is no header line. Write one line of visible characters, at most "
                f"{MAX_LABEL_CHARS}."
            )
        return value

    @field_validator("query", mode="after")
    @classmethod
    def _askable(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                accepted_question(value, "mix", "query")
            except LightRagError as error:
                raise ValueError(error.message.removeprefix("query ")) from None
        return value

    @field_validator("api_key_env", mode="after")
    @classmethod
    def _allowed_variable(cls, value: str | None, info: ValidationInfo) -> str | None:
        allowed = (info.context or {}).get(_ALLOWED, ())
        if value is not None and not _OWN_VARIABLE.fullmatch(value) and value not in allowed:
            raise ValueError(
                "names a variable that is not LIGHTRAG_*. Use one, or allow this one with "
                "--allow-key-env NAME."
            )
        if value is not None and not os.environ.get(value, "").strip():
            raise ValueError(f"names {value}, which is not set. Set it, or drop the key.")
        return value

    @model_validator(mode="after")
    def _read_the_key(self) -> Self:
        if self.api_key_env is not None:
            try:
                self._api_key = SecretStr(sendable_key(os.environ[self.api_key_env]))
            except ValueError as error:
                raise ValueError(f"names {self.api_key_env}, whose value {error}") from None
            warn_of_a_key_in_the_clear(self.origin)
        return self


# --- errors -----------------------------------------------------------------------------------

# What pydantic says of a value, as a problem and a mend.
_FAULTS = {
    "missing": "is required. Write {field}: followed by its value.",
    "string_type": "must be text. Put it in quotes.",
    "bool_type": "must be true or false. Write it without quotes.",
    "int_type": "must be a whole number. Write it without quotes or fraction.",
    "greater_than_equal": "is too small. Write at least {ge}.",
    "less_than_equal": "is too large. Write at most {le}.",
    "literal_error": "must be one of {expected}. Choose one of them.",
}


def _faults_of(error: ValidationError) -> list[ConfigurationError]:
    """Say each fault by key, problem and mend, unknown keys first; no value is repeated."""
    faults = error.errors(include_url=False, include_input=False)
    faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")
    return [_fault_of(fault) for fault in faults]


def _fault_of(fault: ErrorDetails) -> ConfigurationError:
    context = fault.get("ctx", {})
    cause = context.get("error")
    # A fault of the model as a whole has no place: a key spelled twice, or the key's variable.
    field = ".".join(map(str, fault["loc"])) or "api_key_env"
    if fault["type"] == "extra_forbidden":
        cause = UnknownKeyError(field, list(KnowledgeConfig.model_fields))
        field = cause.key
    if isinstance(cause, ValueError):
        said = str(cause)
    else:
        template = _FAULTS.get(fault["type"], "cannot be used.")
        said = template.format(field=field, **context)
    problem, _, mend = said.partition(". ")
    return ConfigurationError(field, problem.rstrip(".") + ".", mend)
