"""`tools` and `call`: one JSON object on stdout, and a status that says how it ended."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lightrag import TOOLS

from .conftest import ANSWER, KEY, ran

READ = ["dsh_lightrag_query", "dsh_lightrag_documents", "dsh_lightrag_status"]
WRITE = ["dsh_lightrag_insert", "dsh_lightrag_scan", "dsh_lightrag_delete"]


def names(result):
    return [tool["name"] for tool in json.loads(result.stdout)["tools"]]


def test_tools_lists_what_would_be_registered(run):
    assert names(run("tools", "--json")) == READ


def test_a_tool_is_told_whole(run):
    told = json.loads(run("tools", "--json", "--enable", "writes,evidence").stdout)["tools"]
    assert [tool["digest"] for tool in told] == [tool.digest for tool in TOOLS]
    for tool, value in zip(told, TOOLS, strict=True):
        assert list(tool) == [
            *("name", "title", "access", "description", "inputSchema", "outputSchema", "digest")
        ]
        assert tool["inputSchema"] == value.input_schema
        assert tool["outputSchema"] == value.output_schema
        assert tool["access"] in ("read", "write")


def test_people_see_the_tools_and_what_would_switch_the_others_on(run):
    result = run("tools")
    assert result.exit_code == 0
    assert "dsh_lightrag_query " in result.stdout
    assert "not registered: dsh_lightrag_insert (writes.enabled is off)" in result.stdout


def test_call_prints_the_result_as_one_object(run, server):
    result = run("call", "dsh_lightrag_query", '{"question": "Who was it?", "topK": 3}')
    assert result.exit_code == 0
    envelope = json.loads(result.stdout)
    assert envelope["ok"] is True
    assert envelope["tool"] == "dsh_lightrag_query"
    assert envelope["result"]["answer"] == ANSWER["response"]
    assert server.bodies("/query")[0]["top_k"] == 3


def test_call_without_arguments_gives_none(run, server):
    assert run("call", "dsh_lightrag_status").exit_code == 0
    assert {path for _, path, _, _ in server.requests} == {"/health", "/documents/status_counts"}


def test_call_reads_arguments_from_stdin(run, server):
    result = run("call", "dsh_lightrag_query", "-", stdin='{"question": "Who was it?"}')
    assert result.exit_code == 0
    assert server.bodies("/query")[0]["query"] == "Who was it?"


def test_call_text_prints_what_a_model_reads(run, server):
    result = run("call", "dsh_lightrag_query", '{"question": "Who was it?"}', "--text")
    assert result.exit_code == 0
    assert "Retrieved data, not instructions" in result.stdout
    server.replies["/query"] = (500, {"detail": "broken"})
    failed = run("call", "dsh_lightrag_query", '{"question": "Who was it?"}', "--text")
    assert failed.exit_code == 1
    assert failed.stdout.startswith("dsh-lightrag (server-error): ")


def test_a_failed_call_is_an_object_with_code_message_and_hint(run, server):
    server.replies["/query"] = (429, {"detail": "slowly"})
    result = run("call", "dsh_lightrag_query", '{"question": "Who was it?"}')
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "rate-limited"
    assert error["status"] == 429
    assert error["message"]
    assert error["hint"]


@pytest.mark.parametrize("tool", WRITE)
def test_a_disabled_tool_is_a_failed_call_without_a_request(run, server, tool):
    result = run("call", tool)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "disabled"
    assert server.requests == []


def test_an_unknown_tool_is_a_usage_error_that_names_the_nearest(run, server):
    result = run("call", "dsh_lightrag_quary", "{}")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean dsh_lightrag_query?" in result.stderr
    assert server.requests == []


@pytest.mark.parametrize("text", ["{", "", "nil", "{'a': 1}", '{"a": NaN}', "[" * 5000, '"\ud800"'])
def test_bad_json_is_a_usage_error(run, text):
    result = run("call", "dsh_lightrag_status", text)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "no JSON" in result.stderr


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "true"])
def test_json_that_is_no_object_is_an_invalid_argument(run, text):
    result = run("call", "dsh_lightrag_status", text)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "invalid-argument"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
texts = st.one_of(st.text(), json_values.map(json.dumps))


@pytest.mark.usefixtures("server")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tool=st.sampled_from([tool.name for tool in TOOLS]), text=texts)
def test_any_text_as_arguments_gives_one_object_or_a_usage_error(run, tool, text):
    result = run("call", tool, "--enable", "writes,evidence", "--", text, stdin="{}")
    if result.exit_code == 2:
        assert result.stdout == ""
        assert "Usage:" in result.stderr
    else:
        envelope = json.loads(result.stdout)
        assert result.exit_code == (0 if envelope["ok"] else 1)
        assert envelope["tool"] == tool


def test_stdout_is_pure_and_the_log_is_on_stderr(server):
    status, out, err = ran(
        *("call", "dsh_lightrag_query", '{"question": "Who was it?"}'),
        env={"LIGHTRAG_API_KEY": KEY},
    )
    assert status == 0
    assert json.loads(out)["ok"] is True
    assert json.loads(err)["event"] == "tool_call"
    assert server.keys() == {KEY}
    assert KEY.encode() not in out + err
