"""Section 2 of the contract: what a configuration may say, row by row."""

from __future__ import annotations

import json

import pytest
import trustme
from pydantic import ValidationError

from dsh_lightrag import ConfigurationError, LightRagSettings

KEY = "key-CANARY-41c9"

DEFAULTS = {
    "enabled": True,
    "endpoint": "http://127.0.0.1:9621",
    "api_key": "",
    "timeout_ms": 60_000,
    "query": {
        "mode": "mix",
        "top_k": 20,
        "max_answer_bytes": 200_000,
        "max_content_bytes": 48_000,
    },
    "documents": {"max_listed": 200},
    "output": {"max_text_bytes": 48_000},
    "evidence": {"enabled": False},
    "writes": {"enabled": False, "max_text_bytes": 200_000},
    "workspace": "",
    "base_path": "",
    "ca_file": None,
    "use_proxy": False,
}

# key, default, low, high
RANGES = [
    ("timeoutMs", 60_000, 1000, 300_000),
    ("query.topK", 20, 1, 200),
    ("query.maxAnswerBytes", 200_000, 1024, 1_048_576),
    ("query.maxContentBytes", 48_000, 1024, 1_048_576),
    ("documents.maxListed", 200, 1, 1000),
    ("output.maxTextBytes", 48_000, 4096, 1_048_576),
    ("writes.maxTextBytes", 200_000, 1024, 1_048_576),
]


def row_with(key, value):
    group, _, name = key.rpartition(".")
    return {group: {name: value}} if group else {name: value}


def value_at(settings, key):
    value = settings.model_dump()
    for part in key.split("."):
        value = value["".join(f"_{c.lower()}" if c.isupper() else c for c in part)]
    return value


def refusal(**row):
    with pytest.raises(ConfigurationError) as caught:
        LightRagSettings(**row)
    assert caught.value.__cause__ is None  # a chain would show the input in a traceback
    return caught.value


def test_defaults_are_the_contracts():
    assert LightRagSettings().model_dump(mode="json") == DEFAULTS


# --- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "default", "low", "high"), RANGES)
def test_numbers_are_clamped_and_what_is_no_number_takes_the_default(key, default, low, high):
    middle = (low + high) // 2
    expected = [
        (low - 1, low),
        (low, low),
        (high, high),
        (high + 1, high),
        (-(10**400), low),
        (10**400, high),
        (middle + 0.9, middle),
        (low - 0.1, low),
        (f" {middle} ", middle),
        (f"+{middle}", middle),
        ("9" * 5000, high),
        ("-" + "9" * 5000, low),
        (1e300, high),
    ]
    expected += [
        (nothing, default)
        for nothing in (
            float("nan"),
            float("inf"),
            float("-inf"),
            "NaN",
            "Infinity",
            "many",
            "",
            "1.5",
            "0x10",
            "1_000",
            "\N{ARABIC-INDIC DIGIT ONE}",
            True,
            False,
            None,
            [],
            {},
        )
    ]
    for given, meant in expected:
        assert value_at(LightRagSettings(**row_with(key, given)), key) == meant, repr(given)[:40]


def test_the_retrieval_mode_falls_back_to_mix_with_one_warning(capsys):
    for mode in ("local", "global", "hybrid", "naive", "mix", "bypass"):
        assert LightRagSettings(query={"mode": mode}).query.mode == mode
    assert capsys.readouterr().err == ""
    for mode in ("MIX", "deep", 3, None, ["mix"]):
        assert LightRagSettings(query={"mode": mode}).query.mode == "mix"
        (record,) = capsys.readouterr().err.splitlines()
        assert json.loads(record)["level"] == "warning"
        assert json.loads(record)["key"] == "query.mode"


@pytest.mark.parametrize("key", ["enabled", "useProxy", "evidence.enabled", "writes.enabled"])
def test_a_row_takes_real_booleans_only(key):
    for real in (True, False):
        assert value_at(LightRagSettings(**row_with(key, real)), key) is real
    for other in ("true", "false", "1", 1, 0, 1.0, None, [], "yes", "on"):
        assert refusal(**row_with(key, other)).key == key


# --- names ------------------------------------------------------------------------------------


def test_camel_case_and_snake_case_mean_the_same():
    camel = LightRagSettings(
        apiKey=KEY, timeoutMs=5000, query={"topK": 3}, basePath="/x", useProxy=True
    )
    snake = LightRagSettings(
        api_key=KEY, timeout_ms=5000, query={"top_k": 3}, base_path="/x", use_proxy=True
    )
    assert camel == snake
    assert refusal(query={"topK": 1, "top_k": 2}).key == "query"


@pytest.mark.parametrize(
    ("row", "key", "nearest"),
    [
        ({"timeout": 5}, "timeout", "timeoutMs"),
        ({"apikey": KEY}, "apikey", "apiKey"),
        ({"writes": {"enable": True}}, "writes.enable", "enabled"),
        ({"query": {"topk": 5}}, "query.topk", "topK"),
        ({"write": {"enabled": True}}, "write", "writes"),
        ({"_env_file": ".env"}, "_env_file", ""),
        ({"query": {7: 1}}, "query.7", ""),
        ({"endPoint": "http://h"}, "endPoint", "endpoint"),
    ],
)
def test_an_unknown_key_is_refused_and_the_nearest_one_named(row, key, nearest):
    error = refusal(**row)
    assert error.key == key
    assert nearest in error.mend
    assert KEY not in str(error)


@pytest.mark.parametrize("row", [None, [], "text", 5, {1: 2}])
def test_a_row_that_is_no_mapping_of_names_is_refused(row):
    with pytest.raises(ConfigurationError):
        LightRagSettings.from_row(row)


@pytest.mark.parametrize("group", ["query", "documents", "output", "evidence", "writes"])
def test_a_group_that_is_no_mapping_is_refused(group):
    for value in (None, [], "text", True):
        assert refusal(**{group: value}).key == group


# --- endpoint ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("http://127.0.0.1:9621", "http://127.0.0.1:9621"),
        ("http://127.0.0.1:9621/", "http://127.0.0.1:9621"),
        (" https://Rag.Example.ORG:443/ ", "https://rag.example.org"),
        ("HTTP://h:80", "http://h"),
        ("http://h:443", "http://h:443"),
        ("https://h:80", "https://h:80"),
        ("http://[::1]:9621", "http://[::1]:9621"),
        ("http://[0:0:0:0:0:0:0:1]", "http://[::1]"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]"),
        ("http://xn--bcher-kva.example", "http://xn--bcher-kva.example"),
    ],
)
def test_an_endpoint_is_normalised(given, normal):
    assert LightRagSettings(endpoint=given).endpoint == normal


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "127.0.0.1:9621",
        "//h",
        "localhost",
        "ftp://h",
        "file:///etc/passwd",
        "http://",
        "http://:80",
        "http://user:SECRET@h",
        "http://SECRET@h",
        "http://h/SECRET",
        "http://h//",
        "http://h/?SECRET",
        "http://h?SECRET",
        "http://h#SECRET",
        "http://h/#SECRET",
        "http://h\\SECRET",
        "http://h:0",
        "http://h:65536",
        "http://h:port",
        "http://h:80:90",
        "http://a b",
        "http://h\n.evil",
        "http://h\x00",
        "http://[::1",
        "http://[fe80::1%25eth0]",
        "http://-h",
        "http://bücher.example",
        "http://" + "a" * 300,
    ],
)
def test_an_endpoint_that_is_no_bare_origin_is_refused_by_scheme_and_host_only(endpoint):
    error = refusal(endpoint=endpoint)
    assert error.key == "endpoint"
    assert error.mend
    assert "SECRET" not in str(error)
    assert "SECRET" not in repr(error)


def test_an_endpoint_error_shows_scheme_and_host():
    text = str(refusal(endpoint="https://user:SECRET@Rag.Example:8443/path?q#f"))
    assert "https://rag.example" in text
    for hidden in ("user", "SECRET", "/path", "?q", "#f"):
        assert hidden not in text


@pytest.mark.parametrize("endpoint", [None, 5, ["http://h"], True])
def test_an_endpoint_that_is_no_text_is_refused(endpoint):
    assert refusal(endpoint=endpoint).key == "endpoint"


# --- key, workspace, base path, authority -----------------------------------------------------


@pytest.mark.parametrize("key", ["k", "with space", "!\"#$%&'()~", "x" * 500])
def test_a_key_of_printable_ascii_is_kept(key):
    assert LightRagSettings(apiKey=key).api_key.get_secret_value() == key


@pytest.mark.parametrize(
    "key", [f"{KEY}\n", f"a\r\nX: {KEY}", f"{KEY}é", f"\x00{KEY}", f" {KEY}", f"{KEY} ", f"\t{KEY}"]
)
def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(key):
    error = refusal(apiKey=key)
    assert error.key == "apiKey"
    assert KEY not in str(error) + repr(error)


@pytest.mark.parametrize("blank", ["", " ", "\t", "\n"])
def test_a_blank_key_falls_back_to_the_variable_and_an_explicit_one_wins(blank, monkeypatch):
    assert LightRagSettings(apiKey=blank).api_key.get_secret_value() == ""
    monkeypatch.setenv("LIGHTRAG_API_KEY", "from-variable")
    assert LightRagSettings(apiKey=blank).api_key.get_secret_value() == "from-variable"
    assert LightRagSettings().api_key.get_secret_value() == "from-variable"
    assert LightRagSettings(apiKey="mine").api_key.get_secret_value() == "mine"
    monkeypatch.setenv("LIGHTRAG_API_KEY", " ")
    assert LightRagSettings(apiKey=blank).api_key.get_secret_value() == ""
    monkeypatch.setenv("LIGHTRAG_API_KEY", f"{KEY}\n")
    assert KEY not in str(refusal(apiKey=blank))


def test_workspaces_and_base_paths_hold_plain_characters_only():
    assert LightRagSettings(workspace="team_A-1.x").workspace == "team_A-1.x"
    for workspace in ("a b", "a/b", "ä", "a\n", "x" * 129, 5, None):
        assert refusal(workspace=workspace).key == "workspace"
    for given, path in (("", ""), ("/", ""), ("/lightrag", "/lightrag"), ("/a/b~c.d/", "/a/b~c.d")):
        assert LightRagSettings(basePath=given).base_path == path
    for path in [
        "lightrag",
        "/a//b",
        "/../x",
        "/./x",
        "/a?b",
        "/a#b",
        "/a%2fb",
        "//h",
        "/@",
        "/a\\b",
    ]:
        assert refusal(basePath=path).key == "basePath"


def test_a_ca_file_must_hold_certificates(tmp_path):
    pem = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(pem)
    assert LightRagSettings(caFile=str(pem)).ca_file == pem
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate", encoding="utf-8")
    for path in (tmp_path / "missing.pem", empty, tmp_path, 5, ""):
        assert refusal(caFile=path).key == "caFile"


@pytest.mark.parametrize(
    ("endpoint", "key", "warnings"),
    [
        ("http://rag.example", KEY, 1),
        ("http://rag.example", "", 0),
        ("https://rag.example", KEY, 0),
        ("http://127.0.0.1:1", KEY, 0),
        ("http://127.8.8.8", KEY, 0),
        ("http://[::1]", KEY, 0),
        ("http://localhost", KEY, 0),
        ("http://localhost.evil.example", KEY, 1),
        ("http://10.0.0.1", KEY, 1),
    ],
)
def test_a_key_in_the_clear_logs_one_warning(endpoint, key, warnings, capsys):
    LightRagSettings(endpoint=endpoint, apiKey=key)
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [record["level"] for record in records] == ["warning"] * warnings
    assert KEY not in json.dumps(records)


# --- the whole --------------------------------------------------------------------------------


def test_settings_are_frozen():
    settings = LightRagSettings()
    for owner, name in ((settings, "enabled"), (settings.writes, "enabled"), (settings, "new")):
        with pytest.raises((ValidationError, AttributeError)):
            setattr(owner, name, True)
    assert settings.writes.enabled is False


def test_two_configurations_side_by_side_do_not_touch_each_other():
    one = LightRagSettings(writes={"enabled": True}, query={"topK": 1}, apiKey="one")
    two = LightRagSettings(apiKey="two")
    assert (one.writes.enabled, one.query.top_k) == (True, 1)
    assert (two.writes.enabled, two.query.top_k) == (False, 20)
    assert one.api_key != two.api_key


def test_no_way_of_showing_settings_shows_the_key():
    settings = LightRagSettings(apiKey=KEY)
    shown = [repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()]
    shown += [repr(settings.connection), str(settings.connection)]
    for text in shown:
        assert KEY not in text
    with pytest.raises(ConfigurationError) as caught:
        LightRagSettings(apiKey=KEY, timeoutMs=1, nonsense=KEY)
    assert KEY not in str(caught.value)
