"""Rows: mappings from setting names to values, as profiles, calls and variables give them.

Names are camelCase in profiles, snake_case in Python, LIGHTRAG_UPPER__CASE in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel
from pydantic.alias_generators import to_camel, to_snake
from pydantic_settings import BaseSettings, EnvSettingsSource

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.text import nearest

ENV_PREFIX = "LIGHTRAG_"
ENV_DELIMITER = "__"
_ENV_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class UnknownKeyError(ValueError):
    """A key that is no setting; carries it, since a place alone cannot tell."""

    def __init__(self, key: object, known: list[str]) -> None:
        self.key = str(key)[:80]
        near = nearest(self.key, known)
        mend = f"Did you mean {near}?" if near else f"Known: {', '.join(known)}."
        super().__init__(f"is not a setting. {mend}")


def group_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of a field that is itself a group of settings."""
    group = model.model_fields[name].annotation
    return group if isinstance(group, type) and issubclass(group, BaseModel) else None


def by_field_name(
    model: type[BaseModel], row: Mapping[Any, Any], spell: Callable[[str], str] = to_camel
) -> dict[str, Any]:
    """Rename a row's keys to field names; errors name fields as `spell` spells them.

    Raises:
        UnknownKeyError: naming the nearest known key.
        ValueError: for a key that is given in both spellings.
    """
    names = {to_camel(name): name for name in model.model_fields}
    names |= {name: name for name in model.model_fields}
    renamed: dict[str, Any] = {}
    for key, value in row.items():
        name = names.get(key) if isinstance(key, str) else None
        if name is None:
            raise UnknownKeyError(key, [spell(known) for known in model.model_fields])
        if name in renamed:
            raise ValueError(f"holds both {to_camel(name)} and {name}. Keep one.")
        renamed[name] = value
    return renamed


def merged(low: dict[str, Any], model: type[BaseModel], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row by field names in which `high` wins over `low`, key by key in groups too."""
    row = dict(low)
    for name, value in by_field_name(model, high).items():
        group = group_of(model, name)
        if group is not None and isinstance(value, Mapping):
            row[name] = merged(row.get(name, {}), group, value)
        else:
            row[name] = value
    return row


def holds(row: Mapping[str, Any], key: str) -> bool:
    """Say whether a row by field names sets a key like `query.topK`."""
    value: Any = row
    for part in key.split("."):
        if not isinstance(value, Mapping) or to_snake(part) not in value:
            return False
        value = value[to_snake(part)]
    return True


def variable_of(key: str) -> str:
    """Return the variable of a key: `LIGHTRAG_QUERY__TOP_K` of `query.topK`."""
    return ENV_PREFIX + ENV_DELIMITER.join(to_snake(part).upper() for part in key.split("."))


def read_environment(model: type[BaseModel]) -> dict[str, Any]:
    """Return the row that `LIGHTRAG_*` variables spell, by field names.

    Raises:
        ConfigurationError: naming the variable: unknown inside a known group, or a boolean
            that is not exactly true, false, 1 or 0.
    """
    source = EnvSettingsSource(
        cast("type[BaseSettings]", model),  # it reads the fields of any model
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        env_ignore_empty=False,
    )
    source.config["enable_decoding"] = False  # text stays text: no group as JSON
    # The source ignores case, and would take `lightrag_writes__enabled` for the switch.
    source.env_vars = {name.lower(): text for name, text in os.environ.items() if name.isupper()}
    return dict(_typed(model, source(), ENV_PREFIX))


def _typed(
    model: type[BaseModel], row: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a row of texts, its booleans read, its groups too."""
    for name, value in row.items():
        variable = f"{prefix}{name.upper()}"
        if name not in model.model_fields:
            fault = UnknownKeyError(variable, [f"{prefix}{n.upper()}" for n in model.model_fields])
            problem, _, mend = str(fault).partition(". ")
            raise ConfigurationError(variable, f"{problem}.", mend)
        group = group_of(model, name)
        if group is not None:
            if not isinstance(value, Mapping):
                nested = f"{variable}{ENV_DELIMITER}"
                raise ConfigurationError(variable, "is a group.", f"Set {nested}<NAME> instead.")
            yield name, dict(_typed(group, value, f"{variable}{ENV_DELIMITER}"))
        elif isinstance(value, Mapping):
            inner = f"{variable}{ENV_DELIMITER}"
            raise ConfigurationError(f"{inner}*", "is not a setting.", f"Set {variable} itself.")
        elif model.model_fields[name].annotation is bool:
            if value not in _ENV_BOOLEANS:
                raise ConfigurationError(variable, "must be true, false, 1 or 0.", "")
            yield name, _ENV_BOOLEANS[value]
        elif value:  # compose files set what is not set to nothing
            yield name, value
