from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from dsh_lightrag import ConfigurationError
from dsh_lightrag.prompt import KnowledgeConfig

from .support import ENDPOINT, KEY


def loaded(**row):
    return KnowledgeConfig(**{"endpoint": ENDPOINT, **row})


def refused(key, **row):
    """Return the error that a row is refused with; it names the key and says what to write."""
    with pytest.raises(ConfigurationError) as caught:
        KnowledgeConfig.from_row({"endpoint": ENDPOINT, **row})
    assert caught.value.key == key
    assert caught.value.problem.endswith(".")
    return caught.value


def test_only_the_endpoint_is_required_and_every_default_is_the_promised_one():
    assert loaded().model_dump() == {
        "endpoint": ENDPOINT,
        "base_path": "",
        "mode": "mix",
        "top_k": 10,
        "max_context_chars": 40_000,
        "api_key_env": None,
        "timeout": "2h",
        "required": False,
        "on_error": "warn",
        "label": "Knowledge Graph Context",
        "query": None,
        "fence": False,
    }
    with pytest.raises(ConfigurationError, match="endpoint: is required"):
        KnowledgeConfig()


@pytest.mark.parametrize(
    ("endpoint", "origin"),
    [
        ("http://127.0.0.1:9621/", "http://127.0.0.1:9621"),
        ("https://RAG.example:443", "https://rag.example"),
        ("http://[::1]:9621", "http://[::1]:9621"),
    ],
)
def test_an_endpoint_is_a_bare_http_or_https_origin(endpoint, origin):
    assert loaded(endpoint=endpoint).endpoint == origin


@pytest.mark.parametrize(
    "endpoint",
    ["ftp://x", "file:///etc/passwd", "x:9621", "http://x?y", "http://x#y", "", 9621, None],
)
def test_every_other_endpoint_is_refused(endpoint):
    assert refused("endpoint", endpoint=endpoint).mend


def test_a_path_goes_into_base_path_and_credentials_into_a_variable():
    assert "Set base_path" in str(refused("endpoint", endpoint="http://x/lightrag"))
    error = str(refused("endpoint", endpoint="http://me:secret@x"))
    assert "api_key_env" in error
    assert "secret" not in error
    assert loaded(base_path="/lightrag/").connection.base_path == "/lightrag"
    refused("base_path", base_path="/a/../b")


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "naive", "mix"])
def test_modes_that_retrieve_are_taken(mode):
    assert loaded(mode=mode).mode == mode


@pytest.mark.parametrize("mode", ["Mix", "", 1, None, ["mix"]])
def test_other_modes_are_refused(mode):
    refused("mode", mode=mode)


def test_bypass_is_refused_because_it_retrieves_nothing():
    assert "retrieves nothing" in refused("mode", mode="bypass").problem


@pytest.mark.parametrize(
    ("given", "used"), [(1, 1), (200, 200), (0, 1), (201, 200), (-5, 1), (2.9, 2), (10**400, 200)]
)
def test_top_k_is_capped(given, used):
    assert loaded(top_k=given).top_k == used


@pytest.mark.parametrize("top_k", ["ten", True, None, float("nan"), float("inf"), [3]])
def test_a_top_k_that_is_no_number_is_refused(top_k):
    refused("top_k", top_k=top_k)


@pytest.mark.parametrize("chars", [1000, 200_000])
def test_max_context_chars_takes_its_bounds(chars):
    assert loaded(max_context_chars=chars).max_context_chars == chars


@pytest.mark.parametrize("chars", [999, 200_001, "1000", True, 1000.5, None])
def test_max_context_chars_outside_its_bounds_is_refused(chars):
    refused("max_context_chars", max_context_chars=chars)


@pytest.mark.parametrize(
    ("timeout", "ms"),
    [("500ms", 500), ("0.5s", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000)],
)
def test_a_timeout_is_a_duration_of_500_ms_to_2_h(timeout, ms):
    assert loaded(timeout=timeout).timeout_ms == ms


@pytest.mark.parametrize(
    "timeout", ["499ms", "121m", "7200001ms", "3h", "30", "30 sec", "-1s", "", 30, None, "1e3s"]
)
def test_every_other_timeout_is_refused(timeout):
    assert "500ms to 2h" in refused("timeout", timeout=timeout).mend


@pytest.mark.parametrize("key", ["required", "fence"])
@pytest.mark.parametrize("value", ["true", 1, None])
def test_switches_are_real_booleans(key, value):
    assert getattr(loaded(**{key: True}), key) is True
    refused(key, **{key: value})


@pytest.mark.parametrize(
    ("row", "policy"),
    [
        ({}, "warn"),
        ({"required": False}, "warn"),
        ({"required": True}, "fail"),
        ({"required": True, "on_error": "warn"}, "warn"),
        ({"required": True, "on_error": "skip"}, "skip"),
        ({"on_error": "fail"}, "fail"),
        ({"on_error": "skip"}, "skip"),
    ],
)
def test_on_error_is_warn_or_what_required_implies_unless_it_is_set(row, policy):
    assert loaded(**row).on_error == policy


def test_other_policies_are_refused():
    refused("on_error", on_error="ignore")
    refused("on_error", on_error=None)


@pytest.mark.parametrize("label", ["x", "x" * 200, "Wissen: ärztlich", "a]b"])
def test_a_label_is_one_line(label):
    assert loaded(label=label).label == label


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "a\u202eb", "x" * 201, 5, None])
def test_every_other_label_is_refused(label):
    refused("label", label=label)


@pytest.mark.parametrize("query", ["", "  ", "ab", "x" * 65_537, 5])
def test_a_query_that_the_server_would_refuse_is_refused(query):
    assert loaded(query="abc").query == "abc"
    refused("query", query=query)


# --- the key ----------------------------------------------------------------------------------


def test_without_a_variable_it_is_anonymous_whatever_the_machine_has_set(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)
    assert loaded().connection.api_key.get_secret_value() == ""


@pytest.mark.parametrize("name", ["LIGHTRAG_API_KEY", "LIGHTRAG_", "LIGHTRAG_TEAM_2"])
def test_the_key_comes_from_the_named_variable_and_is_never_shown(name, monkeypatch):
    monkeypatch.setenv(name, KEY)
    config = loaded(api_key_env=name)
    assert config.connection.api_key.get_secret_value() == KEY
    assert KEY not in repr(config) + str(config) + config.model_dump_json()


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "lightrag_key", "LIGHTRAG_key", "MY_LIGHTRAG_KEY", "PATH", ""]
)
def test_a_foreign_variable_is_refused_even_when_it_is_set(name, monkeypatch):
    if name:
        monkeypatch.setenv(name, KEY)
    assert "--allow-key-env" in refused("api_key_env", api_key_env=name).mend


def test_the_person_running_it_may_allow_a_variable_and_a_row_may_not(monkeypatch):
    monkeypatch.setenv("TEAM_KEY", KEY)
    row = {"endpoint": ENDPOINT, "api_key_env": "TEAM_KEY"}
    config = KnowledgeConfig.from_row(row, ["TEAM_KEY"])
    assert config.connection.api_key.get_secret_value() == KEY
    for escape in ("allowed_key_variables", "_api_key", "context", "self"):
        with pytest.raises(ConfigurationError):
            KnowledgeConfig.from_row({**row, escape: ["TEAM_KEY"]})


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_variable_that_is_not_set_is_an_error_and_not_anonymous(value, monkeypatch):
    if value is not None:
        monkeypatch.setenv("LIGHTRAG_API_KEY", value)
    assert "LIGHTRAG_API_KEY" in refused("api_key_env", api_key_env="LIGHTRAG_API_KEY").problem


def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", "schlüssel\n")
    assert "schl" not in str(refused("api_key_env", api_key_env="LIGHTRAG_API_KEY"))


def test_a_key_pasted_in_the_place_of_a_variable_is_not_repeated():
    assert KEY not in str(refused("api_key_env", api_key_env=KEY))


def test_a_key_over_plain_http_off_this_machine_is_warned_of(monkeypatch, capsys):
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)
    loaded(api_key_env="LIGHTRAG_API_KEY")
    assert capsys.readouterr().err == ""
    loaded(endpoint="http://rag.example", api_key_env="LIGHTRAG_API_KEY")
    assert json.loads(capsys.readouterr().err)["event"] == "settings_key_over_plain_http"


# --- rows -------------------------------------------------------------------------------------


def test_an_unknown_key_is_refused_with_the_nearest_known_one():
    assert refused("topk", topk=3).mend == "Did you mean top_k?"
    assert "Known: endpoint, base_path" in refused("zzz", zzz=3).mend


def test_keys_may_be_written_as_the_plugin_writes_them_but_not_twice():
    assert loaded(topK=3, maxContextChars=1000).top_k == 3
    with pytest.raises(ConfigurationError):
        loaded(topK=3, top_k=3)


@pytest.mark.parametrize("row", [None, [], "http://x", {1: 2}])
def test_a_row_that_is_no_mapping_is_refused(row):
    with pytest.raises(ConfigurationError):
        KnowledgeConfig.from_row(row)


# --- the README -------------------------------------------------------------------------------


def test_the_table_in_the_readme_is_the_one_of_the_code():
    project = Path(__file__).parents[2]
    table = runpy.run_path(str(project / "docs" / "tables.py"))["middleware"]()
    readme = (project / "README.md").read_text(encoding="utf-8")
    assert f"<!-- middleware -->\n{table}\n<!-- /middleware -->" in readme
    for name in KnowledgeConfig.model_fields:
        assert f"| `{name}` |" in table
