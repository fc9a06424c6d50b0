from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dsh_lightrag.prompt import trust

DIGEST = "ab" * 32


def test_a_digest_is_trusted_once_it_was_remembered_and_no_other():
    assert not trust.is_trusted(DIGEST)
    trust.remember(DIGEST)
    trust.remember(DIGEST)
    assert trust.is_trusted(DIGEST)
    assert not trust.is_trusted("cd" * 32)


def test_what_is_remembered_is_the_persons_alone(tmp_path):
    trust.remember(DIGEST)
    remembered = tmp_path / "state" / "dsh-lightrag" / "trusted-pipelines" / DIGEST
    assert remembered.read_bytes() == b""
    assert stat.S_IMODE(remembered.stat().st_mode) == 0o600
    assert stat.S_IMODE(remembered.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_STATE_HOME": "/s"}, "/s/dsh-lightrag"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "/h/.local/state/dsh-lightrag"),
        ("linux", {}, "/h/.local/state/dsh-lightrag"),
        ("darwin", {}, "/h/Library/Application Support/dsh-lightrag"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/dsh-lightrag"),
        ("win32", {}, "/h/AppData/Local/dsh-lightrag"),
    ],
)
def test_the_folder_is_the_platforms_own(platform, variables, folder, monkeypatch):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/h")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert trust.state_folder() == Path(folder)


def test_where_nothing_can_be_remembered_nothing_is_trusted(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert not trust.is_trusted(DIGEST)
    with pytest.raises(OSError, match="file"):
        trust.remember(DIGEST)
