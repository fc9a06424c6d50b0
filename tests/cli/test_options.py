"""Every setting has a flag and a variable; flags win; the key is never a flag."""

from __future__ import annotations

import json

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from dsh_lightrag.cli.options import Load, with_settings
from dsh_lightrag.flags import FLAGS, SWITCHES
from dsh_lightrag.settings import LightRagSettings

from .conftest import KEY


def leaves(model, path=()):
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from leaves(info.annotation, (*path, name))
        else:
            yield (*path, name)


def loaded(*arguments):
    """Return the settings that a command with these flags would load."""
    seen = []

    def probe(load: Load) -> int:
        seen.append(load())
        return 0

    root = typer.Typer()
    root.command()(with_settings(probe))
    assert CliRunner().invoke(root, arguments).exit_code == 0
    return seen[0]


def test_every_setting_has_a_flag_or_is_a_value_of_enable():
    flagged = {flag.path for flag in FLAGS} | {(name, "enabled") for name in SWITCHES}
    assert flagged | {("api_key",)} == set(leaves(LightRagSettings))


@pytest.mark.parametrize("command", ["query", "tools", "call", "doctor", "delete"])
def test_every_command_explains_every_flag_and_its_variable(run, command):
    told = " ".join(run(command, "--help").stdout.split())
    for flag in FLAGS:
        assert flag.name in told
        assert f"LIGHTRAG_{'__'.join(flag.path).upper()}" in told
    assert "--api-key-env NAME" in told
    assert "LIGHTRAG_API_KEY" in told
    assert "LIGHTRAG_<NAME>__ENABLED" in told
    assert "--api-key " not in told


def test_absent_flags_set_nothing():
    assert loaded() == LightRagSettings()


def test_flags_spell_a_row():
    settings = loaded(
        *("--query-top-k", "3", "--endpoint", "http://h", "--use-proxy"),
        *("--enable", "writes, evidence", "--writes-max-text-bytes", "2000"),
    )
    assert settings == LightRagSettings(
        query={"top_k": 3},
        endpoint="http://h",
        use_proxy=True,
        writes={"enabled": True, "max_text_bytes": 2000},
        evidence={"enabled": True},
    )


@pytest.mark.parametrize("given", ["--enable=write", "--enable=", "--disable=all"])
def test_an_unknown_switch_is_a_usage_error(run, given):
    result = run("tools", given)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert given.partition("=")[0] in result.stderr
    assert "evidence or writes" in result.stderr


def test_a_contradiction_is_a_usage_error(run):
    result = run("tools", "--enable", "writes", "--disable", "writes")
    assert result.exit_code == 2
    assert "both enabled and disabled" in result.stderr


def test_flags_win_over_variables(run, server, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("LIGHTRAG_QUERY__TOP_K", "9")
    monkeypatch.setenv("LIGHTRAG_QUERY__MODE", "naive")
    assert run("query", "Who?", "--endpoint", server.url, "--query-top-k", "5").exit_code == 0
    assert server.bodies("/query")[0]["top_k"] == 5
    assert server.bodies("/query")[0]["mode"] == "naive"


def test_a_switch_of_a_variable_can_be_taken_back(run, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "true")
    assert "dsh_lightrag_insert" in run("tools", "--json").stdout
    names = [
        tool["name"]
        for tool in json.loads(run("tools", "--json", "--disable", "writes").stdout)["tools"]
    ]
    assert "dsh_lightrag_insert" not in names
    assert json.loads(run("tools", "--json", "--no-enabled").stdout) == {"tools": []}


def test_the_key_is_read_from_the_variable_that_is_named(run, server, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", "another")
    monkeypatch.setenv("PRODUCTION_KEY", KEY)
    result = run("status", "--api-key-env", "PRODUCTION_KEY")
    assert result.exit_code == 0
    assert server.keys() == {KEY}
    assert KEY not in result.output


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_key_variable_that_is_not_set_is_a_usage_error(run, server, monkeypatch, value):
    monkeypatch.setenv("LIGHTRAG_API_KEY", "another")
    if value is not None:
        monkeypatch.setenv("PRODUCTION_KEY", value)
    result = run("status", "--api-key-env", "PRODUCTION_KEY")
    assert result.exit_code == 2
    assert "PRODUCTION_KEY" in result.stderr
    assert server.requests == []


def test_a_key_is_no_flag(run):
    assert run("status", "--api-key", KEY).exit_code == 2


@pytest.mark.parametrize(
    "flags",
    [
        ["--endpoint", "localhost:9621"],
        ["--endpoint", "http://h/path"],
        ["--timeout-ms", "soon"],
        ["--query-mode", "psychic"],
        ["--base-path", "../x"],
        ["--ca-file", "/nowhere/ca.pem"],
        ["--nonsense"],
    ],
)
def test_options_that_cannot_work_are_usage_errors(run, flags):
    result = run("tools", *flags)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_a_variable_that_cannot_work_is_named(run, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "yes")
    result = run("tools")
    assert result.exit_code == 2
    assert "LIGHTRAG_WRITES__ENABLED" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--data", ""),
        ("ingest", ""),
        ("ingest", "notes.md", "--data", " "),
        ("up", ""),
        ("bases", "list", "--data", ""),
        ("gateway", "up", "--data", ""),
        ("dsh-bundle", ""),
    ],
)
def test_a_variable_that_was_never_set_is_not_the_current_folder(run, words):
    answer = run(*words)
    assert answer.exit_code == 2
    assert "A path is blank" in answer.stderr
