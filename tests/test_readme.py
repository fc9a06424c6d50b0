"""The README says what the code does: its tables are the code's own, its commands exist."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from dsh_lightrag import __version__

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


def test_the_overhead_table_quotes_a_run():
    quoted = README.partition("<!-- overhead -->")[2].partition("<!-- /overhead -->")[0]
    assert len(re.findall(r"\| \d\.\d\d \|", quoted)) == 4


def test_the_changelog_and_the_compatibility_file_speak_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert newest[1] == __version__
    told = json.loads((ROOT / "compatibility.json").read_text(encoding="utf-8"))
    assert told["product"]["version"] == __version__
