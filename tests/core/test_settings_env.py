"""`from_env()` alone reads LIGHTRAG_*; explicit rows take nothing from there but the key."""

from __future__ import annotations

import pytest

from dsh_lightrag import ConfigurationError, LightRagSettings

EVERYTHING = {
    "LIGHTRAG_ENABLED": "0",
    "LIGHTRAG_ENDPOINT": "https://rag.example/",
    "LIGHTRAG_API_KEY": "key-of-env",
    "LIGHTRAG_TIMEOUT_MS": "5000",
    "LIGHTRAG_QUERY__MODE": "naive",
    "LIGHTRAG_QUERY__TOP_K": "7",
    "LIGHTRAG_QUERY__MAX_ANSWER_BYTES": "2048",
    "LIGHTRAG_QUERY__MAX_CONTENT_BYTES": "4096",
    "LIGHTRAG_DOCUMENTS__MAX_LISTED": "9",
    "LIGHTRAG_OUTPUT__MAX_TEXT_BYTES": "5000",
    "LIGHTRAG_EVIDENCE__ENABLED": "1",
    "LIGHTRAG_WRITES__ENABLED": "true",
    "LIGHTRAG_WRITES__MAX_TEXT_BYTES": "1024",
    "LIGHTRAG_WORKSPACE": "team",
    "LIGHTRAG_BASE_PATH": "/lightrag",
    "LIGHTRAG_USE_PROXY": "false",
}

MEANT = {
    "enabled": False,
    "endpoint": "https://rag.example",
    "api_key": "**********",
    "timeout_ms": 5000,
    "query": {"mode": "naive", "top_k": 7, "max_answer_bytes": 2048, "max_content_bytes": 4096},
    "documents": {"max_listed": 9},
    "output": {"max_text_bytes": 5000},
    "evidence": {"enabled": True},
    "writes": {"enabled": True, "max_text_bytes": 1024},
    "workspace": "team",
    "base_path": "/lightrag",
    "ca_file": None,
    "use_proxy": False,
}


def set_variables(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def refusal():
    with pytest.raises(ConfigurationError) as caught:
        LightRagSettings.from_env()
    return caught.value


def test_an_empty_environment_gives_the_defaults():
    assert LightRagSettings.from_env() == LightRagSettings()


def test_every_setting_has_a_variable(monkeypatch):
    set_variables(monkeypatch, EVERYTHING)
    settings = LightRagSettings.from_env()
    assert settings.model_dump(mode="json") == MEANT
    assert settings.api_key.get_secret_value() == "key-of-env"


def test_an_explicit_row_takes_nothing_from_the_environment_but_the_key(monkeypatch):
    set_variables(monkeypatch, EVERYTHING)
    settings = LightRagSettings()
    assert settings.api_key.get_secret_value() == "key-of-env"
    monkeypatch.delenv("LIGHTRAG_API_KEY")
    assert settings.model_dump(exclude={"api_key"}) == LightRagSettings().model_dump(
        exclude={"api_key"}
    )
    assert LightRagSettings.from_row({}).writes.enabled is False
    assert LightRagSettings(endpoint="http://h").endpoint == "http://h"


@pytest.mark.parametrize(
    "name",
    ["ENABLED", "USE_PROXY", "EVIDENCE__ENABLED", "WRITES__ENABLED"],
)
def test_a_boolean_variable_is_exactly_true_false_1_or_0(name, monkeypatch):
    for text in ("true", "1", "false", "0"):
        monkeypatch.setenv(f"LIGHTRAG_{name}", text)
        value = LightRagSettings.from_env().model_dump()
        for part in name.lower().split("__"):
            value = value[part]
        assert value is (text in ("true", "1"))
    for text in ("True", "TRUE", "yes", "on", "", " true", "2", "False"):
        monkeypatch.setenv(f"LIGHTRAG_{name}", text)
        assert refusal().key == f"LIGHTRAG_{name}"


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("LIGHTRAG_QUERY__TOPK", "LIGHTRAG_QUERY__TOP_K"),
        ("LIGHTRAG_WRITES__ENABLE", "LIGHTRAG_WRITES__ENABLED"),
        ("LIGHTRAG_DOCUMENTS__WHATEVER", "LIGHTRAG_DOCUMENTS__MAX_LISTED"),
        ("LIGHTRAG_OUTPUT__MAX_TEXT_BYTES__X", "LIGHTRAG_OUTPUT__"),
    ],
)
def test_an_unknown_name_in_a_known_group_is_refused(variable, nearest, monkeypatch):
    monkeypatch.setenv(variable, "1")
    error = refusal()
    assert error.key.startswith("LIGHTRAG_")
    assert nearest in str(error)


def test_other_names_belong_to_the_server_and_are_ignored(monkeypatch):
    for name in ("KV_STORAGE", "QUERYX__TOP_K", "TOKEN_SECRET", "WRITESENABLED", "API_PREFIX"):
        monkeypatch.setenv(f"LIGHTRAG_{name}", "true")
    monkeypatch.setenv("WRITES__ENABLED", "true")
    monkeypatch.setenv("ENDPOINT", "http://evil")
    assert LightRagSettings.from_env() == LightRagSettings()


def test_a_group_as_one_variable_is_refused(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_WRITES", '{"enabled": true}')
    assert refusal().key == "LIGHTRAG_WRITES"


def test_numbers_are_clamped_and_text_that_is_none_takes_the_default(monkeypatch):
    for text, meant in (("0", 1), ("999", 200), ("x", 20), ("", 20), ("NaN", 20), (" 5 ", 5)):
        monkeypatch.setenv("LIGHTRAG_QUERY__TOP_K", text)
        assert LightRagSettings.from_env().query.top_k == meant


def test_what_the_caller_gives_wins_key_by_key(monkeypatch):
    set_variables(monkeypatch, EVERYTHING)
    settings = LightRagSettings.from_env(
        endpoint="http://mine", query={"topK": 3}, writes={"enabled": False}, apiKey="key-of-mine"
    )
    assert settings.endpoint == "http://mine"
    assert (settings.query.top_k, settings.query.mode) == (3, "naive")
    assert (settings.writes.enabled, settings.writes.max_text_bytes) == (False, 1024)
    assert settings.api_key.get_secret_value() == "key-of-mine"


def test_a_value_that_cannot_work_is_refused_while_loading(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_ENDPOINT", "rag.example")
    assert refusal().key.lower() in ("endpoint", "lightrag_endpoint")


def test_variables_read_later_change_nothing(monkeypatch):
    settings = LightRagSettings.from_env()
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "true")
    assert settings.writes.enabled is False
