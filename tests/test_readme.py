"""The README says what the code does: its tables are the code's own, its commands exist."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from typer.main import get_command

from dsh_lightrag import __version__
from dsh_lightrag.cli.app import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_code():
    assert tables().updated(README) == README


def test_every_table_has_its_place():
    places = set(re.findall(r"<!-- (\w+) -->", README))
    assert set(tables().TABLES) <= places


def commands_of(typer):
    """Each command's own flags, by its words: `("bases", "list")`."""
    group = get_command(typer)
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None) or {None: command}
        for last, one in inner.items():
            flags = {flag for parameter in one.params for flag in parameter.opts}
            yield (name, last) if last else (name,), flags


def test_every_command_line_is_one_of_the_programs():
    known = dict(commands_of(app))
    lines = re.findall(r"(?:^|&& |`)dsh-lightrag ([a-z][^`#|\n]*)", README, re.MULTILINE)
    assert len(lines) > 12
    for line in lines:
        words = line.split()
        name = tuple(words[:2]) if tuple(words[:2]) in known else tuple(words[:1])
        assert name in known or words[0] == "mcp", line
        asked = {word for word in words if word.startswith("--")}
        assert asked <= known.get(name, asked) | {"--help"}, line


def test_the_overhead_table_quotes_a_run():
    quoted = README.partition("<!-- overhead -->")[2].partition("<!-- /overhead -->")[0]
    assert len(re.findall(r"\| \d\.\d\d \|", quoted)) == 4


def test_the_changelog_and_the_compatibility_file_speak_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert newest[1] == __version__
    told = json.loads((ROOT / "compatibility.json").read_text(encoding="utf-8"))
    assert told["product"]["version"] == __version__
