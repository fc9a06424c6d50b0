"""Profiles and presets as files: what is read, what is refused by file, line, row and key."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lightrag import ConfigurationError
from dsh_lightrag.harness import Attestation, attest

from .support import READER, READS, WRITES, attested, names_of

# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dsh-lightrag", "'@yadsh/dsh-lightrag'"])
@pytest.mark.parametrize(
    "config", ["{writes: {enabled: true}}", "{lightrag: {writes: {enabled: true}}}"]
)
def test_settings_stand_in_the_config_directly_or_under_lightrag(tmp_path, name, config):
    profile = f"- {{name: {name}, config: {config}}}"
    assert names_of(attested(tmp_path, profile)) == READS + WRITES


@pytest.mark.parametrize("config", ["", "config:", "config: {}", "config: {lightrag: }"])
def test_a_row_without_settings_has_the_defaults(tmp_path, config):
    assert names_of(attested(tmp_path, f"- name: dsh-lightrag\n  {config}\n")) == READS


def test_json_is_yaml(tmp_path):
    profile = json.dumps([{"name": "dsh-lightrag", "config": {"writes": {"enabled": True}}}])
    assert names_of(attested(tmp_path, profile)) == READS + WRITES


def test_keys_may_have_anchors_too(tmp_path):
    assert attested(tmp_path, "- {&n name: other, id: *n}\n" + READER).ok


def test_a_patch_inserts_rows_and_overrides_them_by_id(tmp_path):
    inserted = "- insert:\n    - {id: kb, name: dsh-lightrag, config: {writes: {enabled: true}}}\n"
    assert names_of(attested(tmp_path, inserted)) == READS + WRITES
    replaced = inserted + "- id: kb\n  config: {timeoutMs: 5000}\n"
    assert names_of(attested(tmp_path, replaced)) == READS
    disabled = inserted + "- {id: kb, disabled: true}\n"
    assert not attested(tmp_path, disabled).ok


def test_an_override_of_a_row_in_another_file_is_read_past(tmp_path):
    assert attested(tmp_path, "- {id: elsewhere, disabled: true}\n" + READER).ok


def test_merge_keys_and_aliases_are_read_as_the_harness_reads_them(tmp_path):
    profile = (
        "- {name: other, config: &base {timeoutMs: 5000, writes: &on {enabled: true}}}\n"
        "- {name: dsh-lightrag, config: {<<: *base, evidence: *on}}\n"
    )
    assert len(attested(tmp_path, profile).tools) == 7
    own_wins = (
        "- {name: other, config: &base {writes: {enabled: true}}}\n"
        "- {name: dsh-lightrag, config: {writes: {enabled: false}, <<: [*base, {enabled: true}]}}\n"
    )
    assert names_of(attested(tmp_path, own_wins)) == READS
    first_wins = (
        "- name: dsh-lightrag\n  config: {<<: [{evidence: {}}, {evidence: {enabled: true}}]}\n"
    )
    assert names_of(attested(tmp_path, first_wins)) == READS


@pytest.mark.parametrize("yes", ["yes", "on", "'true'", "1", "!!str true", "!!bool yes"])
def test_only_a_real_true_switches_writes_on(tmp_path, yes):
    for directive in ("", "%YAML 1.1\n---\n"):
        with pytest.raises(ConfigurationError, match=r"writes\.enabled"):
            attested(
                tmp_path,
                f"{directive}- {{name: dsh-lightrag, config: {{writes: {{enabled: {yes}}}}}}}",
            )


# --- what only the harness can evaluate -------------------------------------------------------


def test_expressions_in_other_rows_are_read_past_and_never_run(tmp_path):
    trap = tmp_path / "ran"
    profile = READER + (
        f"- name: other\n  disabled: !!js process.exit(1)\n  config: !!js |\n"
        f"    require('fs').writeFileSync('{trap}', '')\n"
        f"- !!python/object/apply:os.system ['touch {trap}']\n"
    ).replace("- !!python", "- name: third\n  config: !!python")
    assert attested(tmp_path, profile).ok
    assert not trap.exists()


@pytest.mark.parametrize("key", ["apiKey", "api_key"])
def test_an_api_key_by_expression_is_set_elsewhere(tmp_path, key):
    profile = f"- name: dsh-lightrag\n  config:\n    {key}: !!js process.env.KEY ?? ''\n"
    assert attested(tmp_path, profile).ok


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ("config: !!js x", "row kb: config"),
        ("config: {endpoint: !!js x}", "row kb: config.endpoint"),
        ("config: {writes: !!js x}", "row kb: config.writes"),
        ("config: {query: {topK: !!js x}}", "row kb: config.query.topK"),
        ("config: {lightrag: {query: {topK: !!js x}}}", "row kb: config.lightrag.query.topK"),
        ("disabled: !!js x", "row kb: disabled"),
        ("toolFilter: !!js x", "row kb: toolFilter"),
        ("toolFilter: {allow: !!js x}", "row kb: toolFilter.allow"),
        ("lockdown: {toolPolicy: {allow: !!js x}}", "row kb: lockdown.toolPolicy.allow"),
    ],
)
def test_an_expression_where_a_plain_value_decides_is_an_error(tmp_path, row, key):
    with pytest.raises(ConfigurationError) as caught:
        attested(tmp_path, READER, f"- id: kb\n  name: dsh-lightrag\n  {row}\n")
    assert caught.value.key == f"{tmp_path / 'agent.cordis.yml'}:3: {key}"


# --- faults by file, line, row and key --------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "place"),
    [
        ("- name: dsh-lightrag\n  config:\n    topK: 5", ":3: row dsh-lightrag: config.topK"),
        (
            "- id: kb\n  name: dsh-lightrag\n  config:\n    query:\n      mod: mix",
            ":5: row kb: config.query.mod",
        ),
        (
            "- name: dsh-lightrag\n  config:\n    endpoint: x",
            ":3: row dsh-lightrag: config.endpoint",
        ),
        ("- name: dsh-lightrag\n  config: [1]", ":2: row dsh-lightrag: config"),
        ("- name: dsh-lightrag\n  config: {lightrag: 1}", ":2: row dsh-lightrag: config.lightrag"),
        (
            "- name: dsh-lightrag\n  config:\n    lightrag: {}\n    endpoint: http://a",
            ":4: row dsh-lightrag: config.endpoint",
        ),
        ("- {id: a, name: x}\n- {id: a, name: y}", ":2: row a: id"),
        (READER + "\n- {id: two, name: dsh-lightrag}", ":3: row two"),
        ("rows: []", ""),
        ("- text", ": item 1"),
        ("- insert: {}", ":1: insert"),
        ("- insert: [1]", ":1: insert: item 1"),
        ("- {id: [1], name: x}", ":1: id"),
        ("- {id: a, name: !!js x}", ":1: name"),
        ("- {name: x, lockdown: 1}", ":1: row x: lockdown"),
        ("- {name: x, lockdown: {toolPolicy: 1}}", ":1: row x: lockdown.toolPolicy"),
        ("- {name: x, lockdown: {toolPolicy: {}}}", ":1: row x: lockdown.toolPolicy.allow"),
        ("- a: 1\n  a: 2", ":2"),
        ("- a: *nothing", ":1"),
        ("- &a [*a]", ":1"),
        ("- [1]\n--- \n- [2]", ":2"),
        ("- a: b: c", ":1"),
        ("- a:\n\t- b", ":2"),
        ("- ? [a]\n  : b", ":1"),
        ("- <<: text", ":1"),
        ('- "\\UFFFFFFFF"', ":1"),
        (f"- a: {'9' * 5000}", ":1"),
        (f"- a: {'[' * 100}{']' * 100}", ":1"),
        (
            "- name: dsh-lightrag\n  config:\n    workspace: !!int abc",
            ":3: row dsh-lightrag: config.workspace",
        ),
        ("%YAML 3.0\n---\n[]", ":1"),
    ],
)
def test_a_fault_is_named_by_file_line_row_and_key(tmp_path, profile, place):
    with pytest.raises(ConfigurationError) as caught:
        attested(tmp_path, profile)
    assert caught.value.key == f"{tmp_path / 'cordis.yml'}{place}"
    assert caught.value.problem


@pytest.mark.parametrize(
    ("tool_filter", "key"),
    [
        ("[]", "toolFilter"),
        ("{alow: []}", "toolFilter.alow"),
        ("{allow: }", "toolFilter.allow"),
        ("{allow: dsh_lightrag_query}", "toolFilter.allow"),
        ("{deny: [1]}", "toolFilter.deny"),
    ],
)
def test_a_tool_filter_of_another_shape_is_an_error(tmp_path, tool_filter, key):
    preset = f"- {{name: dsh-lightrag, toolFilter: {tool_filter}}}"
    with pytest.raises(ConfigurationError) as caught:
        attested(tmp_path, READER, preset)
    assert caught.value.key.endswith(f":1: row dsh-lightrag: {key}")


def test_an_alias_to_nothing_is_called_one(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        attested(tmp_path, "- a: *nothing")
    assert "alias" in caught.value.problem


def test_no_fault_shows_a_value(tmp_path):
    for config in ("{apiKey: 'caf\\u00e9-canary-7731'}", "{endpoint: 'http://u:canary-7731@h/'}"):
        with pytest.raises(ConfigurationError) as caught:
            attested(
                tmp_path, f"- {{name: dsh-lightrag, config: {config.replace(chr(39), chr(34))}}}"
            )
        assert "canary-7731" not in str(caught.value)


# --- files that want to hurt ------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "latin.yml").write_bytes(b"- a\n- \xff\n")
    (tmp_path / "preset.yml").write_text(READER, encoding="utf-8")
    for name, key in (("none.yml", "none.yml"), ("", ""), ("latin.yml", "latin.yml:2")):
        with pytest.raises(ConfigurationError) as caught:
            attest(tmp_path / name, tmp_path / "preset.yml")
        assert caught.value.key == str(tmp_path / key)


def test_files_are_bounded_in_bytes_nodes_and_rows(tmp_path):
    for profile in (
        "#" * 300_000,
        "- {}\n" * 1001,
        READER + "- {id: kb}\n" * 1000,
        f"- insert: [{'{},' * 600}]\n" * 2,
        f"- [{'1,' * 30_000}]",
        # Five thousand keys merged into fifteen hundred mappings: 7.5 million entries of 70 KB.
        f"- a: &a {{{','.join(f'k{i}: 1' for i in range(5000))}}}\n"
        + "".join(f"  m{i}: {{<<: *a}}\n" for i in range(1500)),
    ):
        with pytest.raises(ConfigurationError, match=r"larger|more than"):
            attested(tmp_path, profile)


def test_a_bomb_of_aliases_stays_small(tmp_path):
    levels = ["- name: x\n  l0: &l0 [boom]\n"]
    levels += [f"  l{i + 1}: &l{i + 1} [{', '.join([f'*l{i}'] * 9)}]\n" for i in range(40)]
    levels += ["- &m0 {x: 1}\n", *(f"- &m{i + 1} {{a: *m{i}, b: *m{i}}}\n" for i in range(60))]
    config = "- {id: kb, name: dsh-lightrag, config: {query: *m60}}\n"
    with pytest.raises(ConfigurationError) as caught:
        attested(tmp_path, "".join(levels) + config)
    assert caught.value.key.endswith("config.query.a")


def test_reading_yaml_is_paid_for_only_by_those_who_do():
    code = (
        "import sys, dsh_lightrag.plugin, dsh_lightrag.harness\n"
        "print([name for name in sys.modules if name.startswith('ruamel')])"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# --- anything at all --------------------------------------------------------------------------

_TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["dsh-lightrag", "dsh_lightrag_query", "dsh_lightrag_x", "mcp__a__dsh_lightrag_scan", "kb"]
    ),
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS
_KEYS = st.one_of(
    st.sampled_from(
        [
            "id",
            "name",
            "config",
            "disabled",
            "insert",
            "lightrag",
            "toolFilter",
            "lockdown",
            "toolPolicy",
            "allow",
            "deny",
            "writes",
            "enabled",
            "endpoint",
            "apiKey",
            "query",
            "topK",
            "caFile",
        ]
    ),
    st.text(max_size=8),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": _TEXTS | _VALUES,
            "name": st.just("dsh-lightrag") | _TEXTS,
            "config": _VALUES,
            "disabled": st.booleans() | _VALUES,
            "toolFilter": _VALUES | st.dictionaries(_KEYS, st.lists(_TEXTS)),
            "lockdown": _VALUES,
            "insert": _VALUES,
        },
    ),
    max_size=4,
)
# Pieces that YAML is made of, so that what comes out is often nearly right.
_YAMLISH = st.lists(
    st.sampled_from(
        [
            "- ",
            ": ",
            "\n",
            "\n  ",
            "? ",
            "&a ",
            "*a ",
            "<<: ",
            "!!js ",
            "!!int ",
            "!<x> ",
            "{",
            "}",
            "[",
            "]",
            ",",
            "'",
            '"',
            "#",
            "%YAML 1.1\n",
            "---",
            "...",
            "\\U",
            "0x",
            "1e9",
            "name",
            "dsh-lightrag",
            "config",
            "\t",
            "~",
            ">",
            "|",
            "@",
            "`",
            "=",
            "!",
            ".inf",
            "-_",
            "\ufeff",
            "\x85",
            "%TAG ! x\n",
        ]
    )
    | st.text(max_size=3),
    max_size=30,
).map("".join)


def _value_or_refusal(folder, profile, preset):
    (folder / "a.yml").write_bytes(profile)
    (folder / "b.yml").write_bytes(preset)
    try:
        attestation = attest(folder / "a.yml", folder / "b.yml")
    except ConfigurationError as error:
        place = error.key
    else:
        assert isinstance(attestation, Attestation)
        place = attestation.to_json()["profile"]
    assert place.startswith(str(folder))


_MANY = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_MANY
@given(profile=_ROWS | _VALUES, preset=_ROWS)
def test_any_rows_are_attested_or_refused(tmp_path, profile, preset):
    _value_or_refusal(tmp_path, json.dumps(profile).encode(), json.dumps(preset).encode())


@_MANY
@given(profile=_YAMLISH)
def test_any_text_is_attested_or_refused(tmp_path, profile):
    _value_or_refusal(tmp_path, profile.encode("utf-8", "surrogatepass"), READER.encode())


@_MANY
@given(profile=st.binary(max_size=60))
def test_any_bytes_are_attested_or_refused(tmp_path, profile):
    _value_or_refusal(tmp_path, profile, READER.encode())
