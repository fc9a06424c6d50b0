"""The settings' flags as Typer reads them; flags win over variables."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
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


def _row(given: dict[str, Any], flags: tuple[Flag, ...]) -> dict[str, Any]:
    """Return the row that the flags of one command line spell; absent flags are not in it."""
    values = {flag.path: given["_".join(flag.path)] for flag in flags}
    lists = {f"--{verb}": (on, given.get(verb) or []) for verb, on in VERBS.items()}
    try:
        values |= switched(lists)
        if given["api_key_env"] is not None:
            values["api_key",] = secret_of(API_KEY_ENV, given["api_key_env"], os.environ)
    except ConfigurationError as error:  # told as Typer tells of wrong usage
        raise typer.BadParameter(f"{error.problem} {error.mend}", param_hint=error.key) from None
    return row_of(values)


def with_settings(
    command: Callable[..., int], flags: tuple[Flag, ...] = FLAGS
) -> Callable[..., int]:
    """Give a command the flags of all settings, or of some.

    Its first parameter becomes a function that loads them, and raises ConfigurationError.
    """
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    settings = _parameters(flags)

    @functools.wraps(command)
    def wrapped(**given: Any) -> int:
        row = _row({name: given.pop(name) for name in settings}, flags)
        return command(lambda: LightRagSettings.from_env(**row), **given)

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
