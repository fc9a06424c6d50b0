"""`dsh-lightrag mcp`: reads the command line, builds the server, runs one transport.

On argparse: Typer and Rich would cost a third of the start, and hosts start this often.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from dsh_lightrag.errors import PLUGIN_NAME, ConfigurationError, MissingExtraError, needs_extra
from dsh_lightrag.faces.mcp.offer import Offer
from dsh_lightrag.faces.mcp.wire import WireError, write_all
from dsh_lightrag.flags import (
    API_KEY_ENV,
    ENABLED,
    FLAGS,
    SWITCHES,
    row_of,
    secret_of,
    switched,
)
from dsh_lightrag.logs import get_logger
from dsh_lightrag.settings import API_KEY_VARIABLE, LightRagSettings
from dsh_lightrag.tools.catalog import toolbox

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from dsh_lightrag.faces.mcp.door import Door
    from dsh_lightrag.faces.mcp.wire import Wire

STDIO, HTTP = "stdio", "http"
HOST, PORT = "127.0.0.1", 9622
MAX_PORT = 65535
# How the command ends: a call that was not made, a wire that failed, and what a shell says of a
# process that SIGPIPE ended.
USAGE, FAILED, CLOSED_PIPE = 2, 1, 141
METAVARS = {int: "N", str: "TEXT", Path: "FILE"}
# Flags that would mean nothing over stdio; given there, they are a mistake worth telling.
HTTP_ONLY = ("host", "port", "allowed_host", "allowed_origin", "token_env", "json_response")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog=f"{PLUGIN_NAME} mcp",
        description="Serve the tools over the Model Context Protocol.",
        allow_abbrev=False,
        add_help=False,  # it would print to stdout, which belongs to the protocol
    )
    top.add_argument("-h", "--help", action="store_true", help="show this help and exit")
    _add_transport(top.add_argument_group("transport"))
    _add_attestation(top.add_argument_group("attestation"))
    _add_settings(top.add_argument_group("settings (each also as a variable; a flag wins)"))
    return top


def _add_transport(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--transport", choices=(STDIO, HTTP), default=STDIO, help="default: stdio")
    group.add_argument("--host", help=f"address to listen on; default: {HOST}")
    group.add_argument(
        "--port", type=_port, metavar="N", help=f"port to listen on; default: {PORT}"
    )
    group.add_argument(
        "--allowed-host",
        action="append",
        metavar="NAME[:PORT]",
        help="also let requests in that name this host; repeat it",
    )
    group.add_argument(
        "--allowed-origin",
        action="append",
        metavar="URL",
        help="also let web pages of this origin in; repeat it",
    )
    group.add_argument(
        "--token-env",
        action="append",
        metavar="NAME",
        help="variable that holds a bearer token, required off loopback; repeat it for several",
    )
    group.add_argument(
        "--json-response",
        action="store_true",
        default=None,
        help="answer with one JSON body instead of a stream: no progress is told, and a client "
        "that goes away does not end its call",
    )


def _port(text: str) -> int:
    """Return a port; 0 takes a free one.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to {MAX_PORT}")
    return number


def _add_attestation(group: argparse._ArgumentGroup) -> None:
    for name, about in (
        ("profile", "a harness profile: its row has the settings, and variables add none"),
        ("preset", "a harness preset: exactly the tools that it is attested for are served"),
        ("deployment", "a file of its own with the lockdown policy"),
    ):
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=about)
    group.add_argument(
        "--read-only",
        action="store_true",
        help="offer no tool that writes, whatever else would enable one",
    )


def _add_settings(group: argparse._ArgumentGroup) -> None:
    for verb in ("enable", "disable"):
        group.add_argument(
            f"--{verb}",
            action="append",
            default=[],
            metavar=",".join(SWITCHES),
            help=f"{verb} these tools; repeat it, or separate by commas",
        )
    group.add_argument(
        API_KEY_ENV,
        metavar="NAME",
        help=f"variable that holds the key; default: {API_KEY_VARIABLE}",
    )
    for flag in FLAGS:
        about, dest = flag.help.replace("%", "%%"), ".".join(flag.path)
        if flag.kind is bool:
            group.add_argument(flag.name, dest=dest, action="store_const", const=True, help=about)
            group.add_argument(flag.off, dest=dest, action="store_const", const=False)
        elif flag.kind in METAVARS:
            group.add_argument(
                flag.name, dest=dest, type=flag.kind, metavar=METAVARS[flag.kind], help=about
            )
        else:
            group.add_argument(flag.name, dest=dest, choices=get_args(flag.kind), help=about)


def main(arguments: list[str], wire: Wire) -> int:
    """Serve until the client leaves or a signal comes; return the exit status.

    Args:
        arguments: the command line after `mcp`.
        wire: the real stdin and stdout; descriptors 0 and 1 are no longer they.
    """
    top = parser()
    given = top.parse_args(arguments)
    try:
        if given.help:
            _tell_help(top, wire)
        else:
            _run(given, wire)
    except (ConfigurationError, MissingExtraError) as error:
        return _complain(str(error), USAGE)
    except WireError as error:
        return _complain(f"{PLUGIN_NAME} mcp: {error}", FAILED)
    except BrokenPipeError:
        return CLOSED_PIPE  # nobody is left to be told
    return 0


def _complain(text: str, status: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # then the status alone must tell it
        print(text, file=sys.stderr)  # noqa: T201 - this is what the command says of itself
    return status


def _tell_help(top: argparse.ArgumentParser, wire: Wire) -> None:
    if wire.writing is None:
        raise ConfigurationError(
            "stdout", "is closed, so there is nowhere to put help.", "Open it."
        )
    write_all(wire.writing, top.format_help().encode())


def _run(given: argparse.Namespace, wire: Wire) -> None:
    door = _door_of(given)
    offer = _offer_of(given)
    with needs_extra("mcp", f"{PLUGIN_NAME} mcp"):
        from dsh_lightrag.faces.mcp.library_logs import hush_libraries  # noqa: PLC0415 - the extra
        from dsh_lightrag.faces.mcp.server import build  # noqa: PLC0415 - the extra
    hush_libraries()
    server = build(offer)
    # Started with collection off: what imports made is no garbage, and is never looked at again.
    gc.freeze()
    gc.enable()
    if door is None:
        from dsh_lightrag.faces.mcp import stdio  # noqa: PLC0415 - one transport is loaded

        asyncio.run(stdio.serve(server, *_both(wire)))
    else:
        _serve_http(given, offer, server, door)


def _both(wire: Wire) -> tuple[int, int]:
    """Return both descriptors, without which there is no client."""
    if wire.reading is None or wire.writing is None:
        name = "stdin" if wire.reading is None else "stdout"
        raise ConfigurationError(
            name,
            "is closed, and the protocol is spoken there.",
            "Open it, or use --transport http.",
        )
    return wire.reading, wire.writing


def _door_of(given: argparse.Namespace) -> Door | None:
    """Return the door to listen at, or None for stdio."""
    told = [name for name in HTTP_ONLY if getattr(given, name) is not None]
    if given.transport == STDIO:
        if told:
            flag = f"--{told[0].replace('_', '-')}"
            raise ConfigurationError(flag, "means nothing over stdio.", "Add --transport http.")
        return None
    from dsh_lightrag.faces.mcp.door import Door  # noqa: PLC0415 - the extra

    tokens = [secret_of("--token-env", name, os.environ) for name in given.token_env or ()]
    return Door(
        host=HOST if given.host is None else given.host,
        port=PORT if given.port is None else given.port,
        hosts=tuple(given.allowed_host or ()),
        origins=tuple(given.allowed_origin or ()),
        tokens=tuple(tokens),
    )


def _offer_of(given: argparse.Namespace) -> Offer:
    """Return what is served: what the settings switch on, or what was attested."""
    values: dict[tuple[str, ...], Any] = {
        flag.path: getattr(given, ".".join(flag.path)) for flag in FLAGS
    }
    values |= switched({"--enable": (True, given.enable), "--disable": (False, given.disable)})
    key = given.api_key_env
    if key is not None:
        values["api_key",] = secret_of(API_KEY_ENV, key, os.environ)
    row = row_of(values)
    if given.profile is None and given.preset is None and given.deployment is None:
        settings, admitted = LightRagSettings.from_env(**row), None
    else:
        from dsh_lightrag.faces.mcp.attested import attested  # noqa: PLC0415 - it loads YAML

        settings, admitted = attested(given.profile, given.preset, given.deployment, row)
    if given.read_only:  # last, so that nothing comes after it
        writes = settings.writes.model_copy(update={ENABLED: False})
        settings = settings.model_copy(update={"writes": writes})
    return Offer(toolbox(settings), admitted)


def _serve_http(given: argparse.Namespace, offer: Offer, server: Server[None], door: Door) -> None:
    from dsh_lightrag.faces.mcp import http  # noqa: PLC0415 - one transport is loaded

    def listening(url: str) -> None:
        settings = offer.dispatcher.settings
        get_logger().info(
            "mcp_serving",
            url=url,
            tools=[tool.name for tool in offer.tools],
            endpoint=settings.endpoint,
            key_set=bool(settings.api_key.get_secret_value()),
            token_set=bool(door.tokens),
        )

    app = http.app_of(server, door, json_response=bool(given.json_response))
    asyncio.run(http.serve(app, door, listening))
