"""compatibility.json is found wherever the package lies, and its ranges are read as versions."""

from __future__ import annotations

import json

import pytest

from dsh_lightrag.cli import compatibility
from dsh_lightrag.cli.compatibility import FILE, Versions, read_compatibility


def test_the_file_of_the_repository_is_found():
    known = read_compatibility().lightrag
    assert "1.5.7" in known.core.tested
    assert all(known.core.admits(version) for version in known.core.tested)
    assert all(known.api.admits(version) for version in known.api.tested)


def test_the_file_of_a_wheel_is_preferred(monkeypatch, tmp_path):
    versions = {"declared": ">=9", "tested": ["9.1"]}
    content = {"lightrag": {"core": versions, "api": versions}}
    (tmp_path / FILE).write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(compatibility.resources, "files", lambda _: tmp_path)
    assert read_compatibility().lightrag.core.tested == ["9.1"]


@pytest.mark.parametrize(
    ("version", "admitted"),
    [
        ("1.4.9", True),
        ("1.4.10", True),
        ("1.5.7rc2", True),
        ("1.4.8", False),
        ("1.6", False),
        ("1.6.0", False),
        ("1.10", False),
        ("unknown", False),
    ],
)
def test_versions_are_compared_by_number(version, admitted):
    assert Versions(declared=">=1.4.9 <1.6", tested=[]).admits(version) is admitted
