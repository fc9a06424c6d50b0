"""Attestation: the intersection of row, toolFilter and policy, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsh_lightrag import TOOLS, ConfigurationError
from dsh_lightrag.harness import attest

from .support import (
    EVIDENCE,
    READER,
    READS,
    WRITER,
    WRITES,
    attested,
    lockdown,
    names_of,
    preset_with,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


# --- what agents see --------------------------------------------------------------------------


def test_a_default_row_attests_the_three_read_tools_in_catalog_order(tmp_path):
    attestation = attested(tmp_path, READER)
    assert attestation.ok
    assert names_of(attestation) == READS
    assert {tool.access for tool in attestation.tools} == {"read"}


def test_the_tools_are_the_intersection_of_row_filter_and_policy(tmp_path):
    attestation = attested(
        tmp_path,
        WRITER + lockdown(*READS, "dsh_lightrag_insert"),
        preset_with(
            "{allow: [dsh_lightrag_status, dsh_lightrag_query, dsh_lightrag_insert,"
            " dsh_lightrag_scan], deny: [dsh_lightrag_status]}"
        ),
    )
    assert attestation.ok
    assert names_of(attestation) == ["dsh_lightrag_query", "dsh_lightrag_insert"]


def test_a_policy_of_a_separate_deployment_narrows_as_well(tmp_path):
    policy = "lockdown: {toolPolicy: {allow: [dsh_lightrag_status]}}"
    assert names_of(attested(tmp_path, READER, deployment=policy)) == ["dsh_lightrag_status"]
    rows = lockdown("dsh_lightrag_query")
    assert names_of(attested(tmp_path, READER, deployment=rows)) == ["dsh_lightrag_query"]


def test_a_lockdown_without_a_tool_policy_narrows_nothing(tmp_path):
    assert names_of(attested(tmp_path, READER + "- {name: qa, lockdown: {}}")) == READS


def test_a_policy_that_names_none_of_our_tools_leaves_none(tmp_path):
    attestation = attested(tmp_path, READER + lockdown("web_search"))
    assert (attestation.ok, names_of(attestation)) == (True, [])


def test_names_that_the_mcp_client_made_count_by_their_raw_name(tmp_path):
    attestation = attested(tmp_path, READER, preset_with("{allow: [mcp__kb__dsh_lightrag_status]}"))
    assert (attestation.ok, names_of(attestation)) == (True, ["dsh_lightrag_status"])


def test_names_of_other_plugins_are_not_ours_to_judge(tmp_path):
    attestation = attested(
        tmp_path, READER, preset_with("{allow: [bash, mcp__git__log, dsh_lightrag_query]}")
    )
    assert (attestation.ok, names_of(attestation)) == (True, ["dsh_lightrag_query"])


def test_denying_a_tool_that_is_off_is_no_fault(tmp_path):
    attestation = attested(tmp_path, READER, preset_with("{deny: [dsh_lightrag_insert]}"))
    assert (attestation.ok, names_of(attestation)) == (True, READS)


@pytest.mark.parametrize(
    "preset",
    [
        "- {name: dsh-lightrag, config: {toolFilter: {allow: [dsh_lightrag_query]}}}",
        "- {name: dsh-lightrag, toolFilter: {allow: [dsh_lightrag_query]}}",
        "[{name: dsh-lightrag}, {name: sub, config: {toolFilter: {allow: [dsh_lightrag_query]}}}]",
        "- {name: dsh-lightrag, config: {toolFilter: {allow: [dsh_lightrag_query]}, timeoutMs: 1}}",
    ],
)
def test_a_tool_filter_may_stand_beside_a_config_or_in_it(tmp_path, preset):
    attestation = attested(tmp_path, WRITER, preset)
    assert (attestation.ok, names_of(attestation)) == (True, ["dsh_lightrag_query"])


def test_settings_in_a_presets_row_narrow_and_never_widen(tmp_path):
    own = "- {name: dsh-lightrag, config: {lightrag: {evidence: {enabled: true}}}}"
    assert names_of(attested(tmp_path, WRITER, own)) == READS
    wide = "- {name: dsh-lightrag, config: {writes: {enabled: true}}}"
    assert names_of(attested(tmp_path, READER, wide)) == READS


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "config", "switch"),
    [
        *((name, "{}", "writes.enabled") for name in WRITES),
        (EVIDENCE, "{}", "evidence.enabled"),
        ("dsh_lightrag_query", "{enabled: false}", "enabled"),
        ("dsh_lightrag_insert", "{enabled: false, writes: {enabled: true}}", "enabled"),
    ],
)
def test_an_allowed_tool_that_is_not_registered_is_refused_with_its_switch(
    tmp_path, tool, config, switch
):
    profile = f"- {{name: dsh-lightrag, config: {config}}}\n"
    for attestation in (
        attested(tmp_path, profile, preset_with(f"{{allow: [{tool}]}}")),
        attested(tmp_path, profile + lockdown(tool)),
    ):
        assert not attestation.ok
        (refusal,) = attestation.refused
        assert refusal.name == tool
        assert f"Set {switch}: true" in refusal.hint


def test_a_presets_own_row_that_switches_an_allowed_tool_off_is_refused(tmp_path):
    preset = (
        "- {name: dsh-lightrag, config: {timeoutMs: 5000},"
        " toolFilter: {allow: [dsh_lightrag_insert]}}"
    )
    attestation = attested(tmp_path, WRITER, preset)
    (refusal,) = attestation.refused
    assert "preset" in refusal.hint


def test_an_allowed_mcp_name_that_is_not_registered_is_refused_as_it_is_written(tmp_path):
    name = "mcp__kb__dsh_lightrag_delete"
    attestation = attested(tmp_path, READER, preset_with(f"{{allow: [{name}]}}"))
    assert [refusal.name for refusal in attestation.refused] == [name]


@pytest.mark.parametrize("key", ["allow", "deny"])
def test_an_unknown_name_of_ours_is_refused_with_the_nearest_known(tmp_path, key):
    attestation = attested(tmp_path, READER, preset_with(f"{{{key}: [dsh_lightrag_querry]}}"))
    (refusal,) = attestation.refused
    assert refusal.name == "dsh_lightrag_querry"
    assert "dsh_lightrag_query?" in refusal.hint


@pytest.mark.parametrize(
    "missing",
    ["[]", "- {name: other}", "- {name: dsh-lightrag, disabled: true}"],
    ids=["empty", "other rows", "disabled"],
)
def test_a_missing_row_is_refused_in_the_profile_and_in_the_preset(tmp_path, missing):
    for attestation in (attested(tmp_path, missing, READER), attested(tmp_path, READER, missing)):
        assert not attestation.ok
        assert [refusal.name for refusal in attestation.refused] == ["dsh-lightrag"]
        assert attestation.tools == ()


def test_a_second_tool_filter_is_an_error_since_only_one_can_hold(tmp_path):
    preset = preset_with("{deny: []}") + "- {name: other, toolFilter: {allow: []}}"
    with pytest.raises(ConfigurationError) as caught:
        attested(tmp_path, READER, preset)
    assert caught.value.key.endswith("agent.cordis.yml:2: row other: toolFilter")


def test_a_filter_in_a_disabled_row_does_not_count(tmp_path):
    preset = READER + "- {name: other, disabled: true, toolFilter: {allow: []}}"
    assert names_of(attested(tmp_path, READER, preset)) == READS


# --- the report -------------------------------------------------------------------------------


def test_the_report_is_json_with_the_digest_of_each_tool(tmp_path):
    attestation = attested(tmp_path, READER, preset_with("{allow: [dsh_lightrag_status]}"))
    report = json.loads(json.dumps(attestation.to_json()))
    digests = {tool.name: tool.digest for tool in TOOLS}
    assert report == {
        "ok": True,
        "profile": str(tmp_path / "cordis.yml"),
        "preset": str(tmp_path / "agent.cordis.yml"),
        "tools": [
            {
                "name": "dsh_lightrag_status",
                "access": "read",
                "digest": digests["dsh_lightrag_status"],
            }
        ],
        "refused": [],
    }


def test_a_refused_report_says_so(tmp_path):
    report = attested(tmp_path, READER, preset_with("{allow: [dsh_lightrag_scan]}")).to_json()
    assert report["ok"] is False
    assert set(report["refused"][0]) == {"name", "reason", "hint"}


def test_no_variable_switches_anything_on(tmp_path, monkeypatch):
    before = attested(tmp_path, READER).to_json()
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "true")
    monkeypatch.setenv("LIGHTRAG_EVIDENCE__ENABLED", "true")
    monkeypatch.setenv("LIGHTRAG_API_KEY", "a-key-from-the-environment")
    assert attested(tmp_path, READER).to_json() == before


@pytest.mark.parametrize(
    ("profile", "preset", "ok", "names"),
    [
        ("read-only", "read-only", True, READS),
        ("writer", "writer", True, READS + WRITES),
        ("writer", "read-only", True, READS),
        ("read-only", "writer", False, READS),
    ],
)
def test_the_examples_attest_as_their_readmes_say(profile, preset, ok, names):
    attestation = attest(EXAMPLES / profile / "cordis.yml", EXAMPLES / preset / "agent.cordis.yml")
    assert (attestation.ok, names_of(attestation)) == (ok, names)
    assert [refusal.name for refusal in attestation.refused] == ([] if ok else WRITES)
