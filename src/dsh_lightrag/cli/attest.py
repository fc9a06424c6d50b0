"""`attest`: whether the agents of a preset can call exactly what its files promise."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dsh_lightrag.cli.terminal import show, write_json

if TYPE_CHECKING:
    from dsh_lightrag.harness.attestation import Attestation


def attest(
    *,
    profile: Annotated[Path, typer.Option(help="The profile, a YAML list of rows.")],
    preset: Annotated[Path, typer.Option(help="The preset, a YAML list of rows.")],
    deployment: Annotated[
        Path | None, typer.Option(help="A file of its own with the lockdown policy.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Attest which tools a preset's agents may call.

    Reads the files alone: nothing is contacted and no variable takes part.
    """
    # Not at the top: YAML is loaded by those who read some.
    from dsh_lightrag.harness.attestation import attest as attested  # noqa: PLC0415 - as above

    attestation = attested(profile, preset, deployment)
    if as_json:
        write_json(attestation.to_json())
    else:
        _show(attestation)
    return int(not attestation.ok)


def _show(attestation: Attestation) -> None:
    table = Table("tool", "access", "digest", box=None, pad_edge=False)
    for tool in attestation.tools:
        table.add_row(Text(tool.name), tool.access, Text(tool.digest))
    show(table)
    for refusal in attestation.refused:
        show(Text(f"refused: {refusal.name}: {refusal.reason} {refusal.hint}", style="bold red"))
    show(Text("attested" if attestation.ok else "not attested", style="bold"))
