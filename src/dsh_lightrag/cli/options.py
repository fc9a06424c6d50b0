"""Every setting as a flag, derived from the settings model by one walk; flags win over variables.

The key is never a flag: `--api-key-env NAME` names the variable that holds it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from pydantic import BaseModel, SecretStr

from dsh_lightrag.rows import ENV_DELIMITER, ENV_PREFIX, group_of
from dsh_lightrag.settings import LightRagSettings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Load = Callable[[], LightRagSettings]

ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the command line and the setting that it sets.

    Attributes:
        path: the setting's field names, outermost first.
        name: the name of the parameter that Typer fills.
        annotation: the parameter's type and how it is spelled, as Typer reads them.
        read: from what Typer gives to what the settings take.
    """

    path: tuple[str, ...]
    name: str
    annotation: Any
    read: Callable[[Any], Any] = lambda value: value


def _flags(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[Flag]:
    for name, field in model.model_fields.items():
        group = group_of(model, name)
        if group is not None:
            yield from _flags(group, (*path, name))
        elif not (path and name == ENABLED):  # those are the values of --enable
            yield _flag((*path, name), field)


def _flag(path: tuple[str, ...], field: FieldInfo) -> Flag:
    name = "_".join(path)
    flag = f"--{name.replace('_', '-')}"
    kind = field.annotation
    about = f"{field.description}. {_variable(path)}"
    if kind is SecretStr:
        return Flag(
            path,
            "api_key_env",
            _option(
                str,
                "--api-key-env",
                f"variable that holds the key; by default {_variable(path)}",
                "NAME",
            ),
            _from_variable,
        )
    if kind is bool:
        return Flag(path, name, _option(bool, f"{flag}/--no-{flag.removeprefix('--')}", about))
    if type(None) in get_args(kind):  # an absent flag is None anyway
        kind = next(part for part in get_args(kind) if part is not type(None))
    return Flag(path, name, _option(kind, flag, about))


def _option(kind: Any, declaration: str, about: str, metavar: str | None = None) -> Any:
    return Annotated[
        kind | None,
        typer.Option(declaration, help=about, metavar=metavar, show_default=False),
    ]


def _variable(path: tuple[str, ...]) -> str:
    return f"{ENV_PREFIX}{ENV_DELIMITER.join(path).upper()}"


def _from_variable(name: str) -> str:
    key = os.environ.get(name, "")
    if not key.strip():
        raise typer.BadParameter(
            f"the variable {name} is not set, or blank.", param_hint="--api-key-env"
        )
    return key


FLAGS: tuple[Flag, ...] = tuple(_flags(LightRagSettings))

# --- groups that are switched on and off ------------------------------------------------------

SWITCHES: tuple[str, ...] = tuple(
    name
    for name in LightRagSettings.model_fields
    if (group := group_of(LightRagSettings, name)) is not None and ENABLED in group.model_fields
)


def _switch(verb: str) -> Any:
    return Annotated[
        list[str] | None,
        typer.Option(
            f"--{verb}",
            metavar="|".join(SWITCHES),
            help=f"{verb} these tools; repeat it, or separate by commas. "
            f"{ENV_PREFIX}<NAME>{ENV_DELIMITER}{ENABLED.upper()}",
            show_default=False,
        ),
    ]


_SWITCH_PARAMETERS: dict[str, bool] = {"enable": True, "disable": False}


def _switched(given: dict[str, Any]) -> dict[str, dict[str, bool]]:
    """Read `--enable` and `--disable`; a name in both is a contradiction."""
    groups: dict[str, bool] = {}
    for verb, on in _SWITCH_PARAMETERS.items():
        for name in (part.strip() for value in given[verb] or [] for part in value.split(",")):
            if name not in SWITCHES:
                raise typer.BadParameter(
                    f"{name!r} is none of {', '.join(SWITCHES)}.", param_hint=f"--{verb}"
                )
            if groups.setdefault(name, on) is not on:
                raise typer.BadParameter(
                    f"{name} is both enabled and disabled.", param_hint=f"--{verb}"
                )
    return {name: {ENABLED: on} for name, on in groups.items()}


# --- a command with all of them ---------------------------------------------------------------


def row_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the row that the flags of one command line spell; absent flags are not in it."""
    row: dict[str, Any] = _switched(given)
    for flag in FLAGS:
        if (value := given[flag.name]) is not None:
            group = row
            for name in flag.path[:-1]:
                group = group.setdefault(name, {})
            group[flag.path[-1]] = flag.read(value)
    return row


@dataclass(frozen=True, slots=True)
class KeyByName:
    """Settings for a command that passes the key's variable on, and so never reads it.

    Attributes:
        load: loads the settings, with no key but that of the default variable.
        variable: what `--api-key-env` names, or None.
    """

    load: Load
    variable: str | None


def with_settings(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the flags of all settings.

    Its first parameter becomes a function that loads them, and raises ConfigurationError.
    """
    return _with_flags(command, _loader)


def with_key_by_name(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the flags of all settings; its first parameter becomes a KeyByName."""
    return _with_flags(
        command,
        lambda given: KeyByName(_loader(given | {"api_key_env": None}), given["api_key_env"]),
    )


def _loader(given: dict[str, Any]) -> Load:
    row = row_of(given)
    return lambda: LightRagSettings.from_env(**row)


def _with_flags(
    command: Callable[..., int], first: Callable[[dict[str, Any]], object]
) -> Callable[..., int]:
    """Put the flags after a command's own parameters; `first` makes its first of what was given."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    settings = {flag.name: flag.annotation for flag in FLAGS}
    settings |= {verb: _switch(verb) for verb in _SWITCH_PARAMETERS}

    @functools.wraps(command)
    def wrapped(**given: Any) -> int:
        return command(first({name: given.pop(name) for name in settings}), **given)

    parameters = [
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        *(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for name, annotation in settings.items()
        ),
    ]
    # Typer reads the parameters from here.
    signature = inspect.Signature(parameters, return_annotation=int)
    wrapped.__signature__ = signature  # type: ignore[attr-defined]  # functions may have one
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped
