"""The settings' flags as Typer reads them; flags win over variables."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.flags import (
    API_KEY_ENV,
    ENABLED,
    FLAGS,
    SWITCHES,
    Flag,
    row_of,
    secret_of,
    switched,
)
from dsh_lightrag.rows import ENV_DELIMITER, ENV_PREFIX
from dsh_lightrag.settings import API_KEY_VARIABLE, LightRagSettings

Load = Callable[[], LightRagSettings]

VERBS = {"enable": True, "disable": False}


def _option(kind: Any, declaration: str, about: str, metavar: str | None = None) -> Any:
    return Annotated[
        kind | None, typer.Option(declaration, help=about, metavar=metavar, show_default=False)
    ]


def _parameters(flags: tuple[Flag, ...]) -> dict[str, Any]:
    """Return what Typer takes, by the names under which it gives it back."""
    taken = {
        "_".join(flag.path): _option(
            flag.kind, f"{flag.name}/{flag.off}" if flag.kind is bool else flag.name, flag.help
        )
        for flag in flags
    }
    about = f"variable that holds the key; by default {API_KEY_VARIABLE}"
    taken["api_key_env"] = _option(str, API_KEY_ENV, about, "NAME")
    variable = f"{ENV_PREFIX}<NAME>{ENV_DELIMITER}{ENABLED.upper()}"
    if flags is FLAGS:  # some of them switch no group
        for verb in VERBS:
            about = f"{verb} these tools; repeat it, or separate by commas. {variable}"
            taken[verb] = _option(list[str], f"--{verb}", about, "|".join(SWITCHES))
    return taken


def _loader(given: dict[str, Any]) -> Load:
    """Return what loads the settings that the flags of one command line spell."""
    values = {flag.path: given.get("_".join(flag.path)) for flag in FLAGS}
    lists = {f"--{verb}": (on, given.get(verb) or []) for verb, on in VERBS.items()}
    try:
        values |= switched(lists)
        if given["api_key_env"] is not None:
            values["api_key",] = secret_of(API_KEY_ENV, given["api_key_env"], os.environ)
    except ConfigurationError as error:  # told as Typer tells of wrong usage
        raise typer.BadParameter(f"{error.problem} {error.mend}", param_hint=error.key) from None
    row = row_of(values)
    return lambda: LightRagSettings.from_env(**row)


@dataclass(frozen=True, slots=True)
class KeyByName:
    """Settings for a command that passes the key's variable on, and so never reads it.

    Attributes:
        load: loads the settings, with no key but that of the default variable.
        variable: what `--api-key-env` names, or None.
    """

    load: Load
    variable: str | None


def with_settings(
    command: Callable[..., int], flags: tuple[Flag, ...] = FLAGS
) -> Callable[..., int]:
    """Give a command the flags of all settings, or of some.

    Its first parameter becomes a function that loads them, and raises ConfigurationError.
    """
    return _with_flags(command, flags, _loader)


def with_key_by_name(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the flags of all settings; its first parameter becomes a KeyByName."""
    return _with_flags(
        command,
        FLAGS,
        lambda given: KeyByName(_loader(given | {"api_key_env": None}), given["api_key_env"]),
    )


def _with_flags(
    command: Callable[..., int],
    flags: tuple[Flag, ...],
    first: Callable[[dict[str, Any]], object],
) -> Callable[..., int]:
    """Put the flags after a command's own parameters; `first` makes its first of what was given."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    settings = _parameters(flags)

    @functools.wraps(command)
    def wrapped(**given: Any) -> int:
        return command(first({name: given.pop(name) for name in settings}), **given)

    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=by_name) for parameter in own]
    parameters += [
        inspect.Parameter(name, by_name, default=None, annotation=annotation)
        for name, annotation in settings.items()
    ]
    # Typer reads the parameters from here.
    signature = inspect.Signature(parameters, return_annotation=int)
    wrapped.__signature__ = signature  # type: ignore[attr-defined]  # functions may have one
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped
