"""`doctor`: what is wrong with a deployment, check by check, and what mends it."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dsh_lightrag.cli.options import Load  # noqa: TC001 - Typer reads annotations when it runs
from dsh_lightrag.cli.terminal import for_people, show, waiting, write_json
from dsh_lightrag.loop_thread import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_lightrag.cli.checks import Finding

MARKS = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("-", "dim")}
_MARK_WIDTH, _ID_WIDTH = len("FAIL"), len("credentials")


def doctor(
    load: Load,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Find what is wrong and say what mends it.

    Checks endpoint, network, server, key, routes, models and ingestion, in this order.
    """
    findings = run(_examined(load, (lambda _: None) if as_json else _show))
    ok = all(finding.ok is not False for finding in findings)
    if as_json:
        write_json({"ok": ok, "checks": [finding.fields() for finding in findings]})
    return int(not ok)


async def _examined(load: Load, tell: Callable[[Finding], None]) -> list[Finding]:
    """Make all checks; each is told as soon as it is known, some take their time."""
    # Not at the top: a command that makes no request need not wait for an HTTP client.
    from dsh_lightrag.cli.checks import examine  # noqa: PLC0415 - as above
    from dsh_lightrag.cli.network import in_container  # noqa: PLC0415 - as above

    findings: list[Finding] = []
    async with aclosing(examine(load, in_container=in_container())) as examination:
        while True:
            with waiting("examining …"):
                finding = await anext(examination, None)
            if finding is None:
                return findings
            findings.append(finding)
            tell(finding)


def _show(finding: Finding) -> None:
    mark, style = MARKS[finding.ok]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_MARK_WIDTH)
    grid.add_column(width=_ID_WIDTH)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=style), finding.id, Text(finding.what))
    if finding.mend:
        grid.add_row("", "", Text(for_people(finding.mend), style="bold"))
    show(grid)
