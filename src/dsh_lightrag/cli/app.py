"""The commands, and how each of them ends: 0 ok, 1 a failed call, 2 a call that was not made."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsh_lightrag.cli import attest, demo, doctor, harness, machine, people, prompts
from dsh_lightrag.cli.gateway import parts
from dsh_lightrag.cli.gateway.people import KEY_COMMANDS, TEAM_COMMANDS
from dsh_lightrag.cli.gateway.up import up as gateway_up
from dsh_lightrag.cli.hosting.bases import BASES_COMMANDS
from dsh_lightrag.cli.hosting.flags import with_hosting
from dsh_lightrag.cli.hosting.ingest import ingest
from dsh_lightrag.cli.hosting.serve import serve
from dsh_lightrag.cli.hosting.up import up
from dsh_lightrag.cli.mcp import AS_GIVEN, mcp
from dsh_lightrag.cli.options import with_key_by_name, with_settings
from dsh_lightrag.cli.terminal import complain, for_people, prepare_streams, write_line
from dsh_lightrag.errors import (
    PLUGIN_NAME,
    ConfigurationError,
    LightRagError,
    MissingExtraError,
)
from dsh_lightrag.flags import CONNECTION
from dsh_lightrag.logs import frames_of
from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

# What ends a command early, the status it ends with, and whether its text is told. The last two
# are what a shell says of a process that the signals SIGINT and SIGPIPE ended.
ENDINGS: dict[type[BaseException], tuple[int, bool]] = {
    LightRagError: (1, True),
    ConfigurationError: (2, True),
    MissingExtraError: (2, True),
    KeyboardInterrupt: (130, False),
    BrokenPipeError: (141, False),
}
BUG = 1

# Every command; `with_settings` adds a flag per setting, or for those it is given.
COMMANDS: tuple[Callable[..., int], ...] = (
    with_settings(people.query),
    with_settings(people.documents),
    with_settings(people.status),
    with_settings(people.insert),
    with_settings(people.scan),
    with_settings(people.delete),
    with_settings(machine.tools),
    with_settings(machine.call),
    with_settings(doctor.doctor),
    with_settings(prompts.augment, CONNECTION),
    attest.attest,
    with_key_by_name(harness.dsh_patch),
    with_key_by_name(harness.dsh_bundle),
    demo.demo,
    with_hosting(serve),
    with_settings(with_hosting(ingest), CONNECTION),
    with_hosting(up),
)
# Those under `gateway`, besides `team` and `key`.
GATEWAY_COMMANDS: dict[str, Callable[..., int]] = {
    "up": with_hosting(gateway_up),
    "migrate": parts.migrate,
    "api": parts.api,
    "worker": parts.worker,
    "ready": parts.ready,
}
# Those under `pipeline`.
PIPELINE_COMMANDS: tuple[Callable[..., int], ...] = (prompts.check, prompts.show)


def run() -> None:
    """Run the command line and end the process."""
    prepare_streams()
    app(prog_name=PLUGIN_NAME)


def ended(command: Callable[..., int]) -> Callable[..., None]:
    """Turn a command's return value, and whatever ends it early, into an exit status."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        try:
            status = command(**given)
            sys.stdout.flush()  # here, where a closed pipe can still be answered
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise  # Typer's own: usage errors end with 2
        except tuple(ENDINGS) as error:
            status = _early(error)
        except Exception as error:  # noqa: BLE001 - the outermost face tells a bug without its text
            status = _early(BrokenPipeError()) if _is_closed_pipe(error) else _bug(error)
        raise typer.Exit(status)

    return wrapped


def _early(error: BaseException) -> int:
    status, told = next(ENDINGS[kind] for kind in type(error).__mro__ if kind in ENDINGS)
    if isinstance(error, BrokenPipeError):
        _let_stdout_go()
    if told:
        complain(for_people(str(error)))
    return status


def _is_closed_pipe(error: Exception) -> bool:
    """Recognise how Windows says that nobody reads stdout any more."""
    return sys.platform == "win32" and isinstance(error, OSError) and error.errno == errno.EINVAL


def _bug(error: Exception) -> int:
    """Tell where a bug rose; its message and locals may hold what users wrote."""
    complain(f"{PLUGIN_NAME}: a fault in this program ({type(error).__name__}) at:")
    for frame in frames_of(error):
        complain(f"  {frame}")
    return BUG


def _let_stdout_go() -> None:
    """Point stdout elsewhere, or the interpreter would complain of the pipe as it exits."""
    with contextlib.suppress(OSError, ValueError):  # a stdout that is no file has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(asked: bool) -> None:  # noqa: FBT001 - the signature is Typer's
    if asked:
        write_line(__version__)
        raise typer.Exit


def _main(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Knowledge-base tools over a LightRAG server.

    Settings come from flags, then from LIGHTRAG_ variables; COMMAND --help lists both. Answers go
    to stdout, everything else to stderr. Status: 0 ok, 1 a failed call, 2 wrong usage or settings.
    """


app = typer.Typer(
    name=PLUGIN_NAME,
    add_completion=False,
    no_args_is_help=True,
    # Typer's own tracebacks can show local variables, and with them keys and texts.
    pretty_exceptions_enable=False,
    # Its boxes cut long flags off on narrow terminals.
    rich_markup_mode=None,
)
app.callback()(_main)
pipeline = typer.Typer(
    no_args_is_help=True, help="Pipeline files: prompts with retrieved context before them."
)
app.add_typer(pipeline, name="pipeline")
bases = typer.Typer(no_args_is_help=True, help="The bases of a data folder.")
app.add_typer(bases, name="bases")
gateway = typer.Typer(no_args_is_help=True, help="Many teams' knowledge bases as a service.")
app.add_typer(gateway, name="gateway")
team = typer.Typer(no_args_is_help=True, help="The teams of a gateway.")
gateway.add_typer(team, name="team")
key = typer.Typer(no_args_is_help=True, help="A team's keys.")
gateway.add_typer(key, name="key")
for group, functions in ((app, COMMANDS), (pipeline, PIPELINE_COMMANDS)):
    for function in functions:
        group.command()(ended(function))
for group, named in (
    (bases, BASES_COMMANDS),
    (gateway, GATEWAY_COMMANDS),
    (team, TEAM_COMMANDS),
    (key, KEY_COMMANDS),
):
    for name, function in named.items():
        group.command(name)(ended(function))
app.command(context_settings=AS_GIVEN)(ended(mcp))
