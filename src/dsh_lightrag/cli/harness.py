"""`dsh-patch` and `dsh-bundle`: what the DeepSeek Harness is given to mount the tools."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from dsh_lightrag.cli.files import named_path
from dsh_lightrag.cli.options import KeyByName  # noqa: TC001 - as above
from dsh_lightrag.cli.terminal import complain, write_line
from dsh_lightrag.errors import PLUGIN_NAME, MissingExtraError
from dsh_lightrag.faces.dsh.bundle import PACKAGE_NAME, write_bundle
from dsh_lightrag.faces.dsh.row import BRIDGE, Mode, patch

if TYPE_CHECKING:
    from dsh_lightrag.settings import LightRagSettings


def dsh_patch(
    deployment: KeyByName,
    *,
    mode: Annotated[
        Mode,
        typer.Option(help="mcp: names after mcp__lightrag__; bare: as they are, by our bridge."),
    ] = Mode.MCP,
) -> int:
    """Print a patch that mounts the tools in the DeepSeek Harness.

    dsh --profile P --patch FILE reads it; cordis.patch.yml in a profile's folder keeps it. The key
    is named, never written.
    """
    settings = _servable(deployment)
    text = patch(settings, mode, deployment.variable, str(BRIDGE))
    write_line(text.removesuffix("\n"))
    return 0


def dsh_bundle(
    deployment: KeyByName,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", parser=named_path, help="A new or empty folder.")
    ],
) -> int:
    """Write a bundle that mounts the tools under their own names in a profile of the harness.

    Install it with: dsh plugin --profile P add file:DIR
    """
    write_bundle(folder, _servable(deployment), deployment.variable)
    complain(f"Wrote {PACKAGE_NAME}. Next: dsh plugin --profile NAME add file:{folder.absolute()}")
    return 0


def _servable(deployment: KeyByName) -> LightRagSettings:
    """Load the settings, and make sure that the process of the row could start at all."""
    if find_spec("mcp") is None:
        raise MissingExtraError("mcp", f"{PLUGIN_NAME} in the harness")
    return deployment.load()
