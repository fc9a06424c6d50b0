"""`attest`: a value from two files, and a status that a deployment can pin."""

from __future__ import annotations

import json

import pytest

from dsh_lightrag import TOOLS

PROFILE = "- id: lightrag\n  name: dsh-lightrag\n  config:\n    endpoint: http://127.0.0.1:9621\n"


@pytest.fixture
def files(tmp_path):
    """Write a profile and a preset that allows the tools given; return their flags."""

    def write(*allowed):
        (tmp_path / "profile.yml").write_text(PROFILE, encoding="utf-8")
        preset = "- name: dsh-lightrag\n- name: agent\n  config:\n    toolFilter:\n      allow:\n"
        preset += "".join(f"        - {name}\n" for name in allowed)
        (tmp_path / "agent.cordis.yml").write_text(preset, encoding="utf-8")
        return [
            *("--profile", tmp_path / "profile.yml"),
            *("--preset", tmp_path / "agent.cordis.yml"),
        ]

    return write


def test_an_attested_preset_names_each_tool_with_its_digest(run, files):
    flags = files("dsh_lightrag_query", "dsh_lightrag_status")
    result = run("attest", *flags, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["ok"] is True
    digests = {tool.name: tool.digest for tool in TOOLS}
    assert [tool["name"] for tool in told["tools"]] == ["dsh_lightrag_query", "dsh_lightrag_status"]
    assert all(tool["digest"] == digests[tool["name"]] for tool in told["tools"])
    people = run("attest", *flags)
    assert people.exit_code == 0
    assert digests["dsh_lightrag_query"] in people.stdout


def test_a_preset_that_promises_too_much_is_refused(run, files):
    flags = files("dsh_lightrag_query", "dsh_lightrag_insert")
    result = run("attest", *flags, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["ok"] is False
    assert told["refused"][0]["name"] == "dsh_lightrag_insert"
    assert "writes.enabled" in told["refused"][0]["hint"]
    people = run("attest", *flags)
    assert people.exit_code == 1
    assert "refused: dsh_lightrag_insert: " in people.stdout


def test_a_file_that_cannot_be_read_is_a_usage_error(run, files, tmp_path):
    flags = [*files("dsh_lightrag_query"), "--profile", tmp_path / "absent.yml"]
    result = run("attest", *flags)
    assert result.exit_code == 2
    assert "absent.yml" in result.stderr
    assert run("attest").exit_code == 2
