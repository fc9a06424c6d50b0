"""Every setting as a command-line flag: one table, walked once off the settings model.

Both command lines read it: the one for people (Typer) and `dsh-lightrag mcp`, which must start
before Typer is imported. The key is never a flag: `--api-key-env NAME` names its variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, SecretStr

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.rows import group_of, variable_of
from dsh_lightrag.settings import Connection, LightRagSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENABLED = "enabled"
API_KEY_ENV = "--api-key-env"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag and the setting that it sets.

    Attributes:
        path: the setting's field names, outermost first.
        name: the flag, as `--query-top-k`; a boolean one also has `off`.
        kind: what it takes: str, int, Path, bool, or a Literal of the words it knows.
        help: what it decides, and the variable that also sets it.
    """

    path: tuple[str, ...]
    name: str
    kind: Any
    help: str

    @property
    def off(self) -> str:
        """The flag that sets a boolean to false."""
        return f"--no-{self.name.removeprefix('--')}"


def _flags(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[Flag]:
    for name, field in model.model_fields.items():
        path = (*above, name)
        group = group_of(model, name)
        if group is not None:
            yield from _flags(group, path)
        elif field.annotation is not SecretStr and (not above or name != ENABLED):
            kind = field.annotation
            plain = next((part for part in get_args(kind) if part is not type(None)), kind)
            yield Flag(
                path=path,
                name=f"--{'-'.join(path)}".replace("_", "-"),
                kind=kind if isinstance(plain, str) else plain,
                help=f"{field.description}. {variable_of('.'.join(path))}",
            )


FLAGS: tuple[Flag, ...] = tuple(_flags(LightRagSettings))
# Those that decide where requests go and what they carry.
CONNECTION: tuple[Flag, ...] = tuple(
    flag for flag in FLAGS if flag.path[0] in {"endpoint", *Connection.__dataclass_fields__}
)
# The groups that `--enable` and `--disable` switch.
SWITCHES: tuple[str, ...] = tuple(
    name
    for name in LightRagSettings.model_fields
    if (group := group_of(LightRagSettings, name)) is not None and ENABLED in group.model_fields
)


def row_of(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Nest values by their paths into a row; what is None was not given and stays out."""
    row: dict[str, Any] = {}
    for path, value in values.items():
        if value is not None:
            group = row
            for name in path[:-1]:
                group = group.setdefault(name, {})
            group[path[-1]] = value
    return row


def switched(lists: Mapping[str, tuple[bool, list[str]]]) -> dict[tuple[str, ...], bool]:
    """Read lists of groups, `{"--enable": (True, ["evidence,writes"])}`, into values by path.

    Raises:
        ConfigurationError: naming the flag: a name that is no group, or one both on and off.
    """
    switches: dict[tuple[str, ...], bool] = {}
    for flag, (on, given) in lists.items():
        for name in (part.strip() for text in given for part in text.split(",")):
            if name not in SWITCHES:
                raise ConfigurationError(
                    flag, f"knows no {name!r}.", f"Write {' or '.join(SWITCHES)}."
                )
            if switches.setdefault((name, ENABLED), on) is not on:
                raise ConfigurationError(flag, f"{name} is both enabled and disabled.", "Keep one.")
    return switches


def secret_of(flag: str, variable: str, environment: Mapping[str, str]) -> str:
    """Return the secret that a variable holds.

    Raises:
        ConfigurationError: naming the flag and the variable, which is not set, or blank.
    """
    secret = environment.get(variable, "")
    if not secret.strip():
        raise ConfigurationError(flag, f"The variable {variable} is not set, or blank.", "Set it.")
    return secret
