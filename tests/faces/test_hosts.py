from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from dsh_lightrag import Access, Dispatcher, LightRagSettings, Tool, toolbox
from dsh_lightrag.dispatch import Args, Result
from dsh_lightrag.faces import openai_agents

from .hosts import AWAITING_HOSTS, HOSTS, ClaudeAgent, Llm, OpenAIAgents, PydanticAI
from .server import KEY, WAIT_S

QUESTION = {"question": "Who found polonium?"}

every_host = pytest.mark.parametrize("host_type", HOSTS, ids=lambda host: host.__name__)


def everything_on(server):
    return LightRagSettings(
        endpoint=server.url, apiKey=KEY, writes={"enabled": True}, evidence={"enabled": True}
    )


@every_host
async def test_lists_what_is_switched_on_as_the_catalog_tells_it(host_type, server, settings):
    for deployment in (settings, everything_on(server)):
        expected = [
            (tool.name, tool.description, tool.input_schema) for tool in toolbox(deployment).tools
        ]
        async with host_type(deployment) as host:
            assert await host.definitions() == expected
    assert len(expected) == 7
    assert server.requests == []


@every_host
async def test_calls_a_tool_and_shows_its_text(host_type, server, settings):
    async with host_type(settings) as host:
        shown = await host.call("dsh_lightrag_query", QUESTION)
    assert not shown.failed
    assert "Answer of the knowledge base, with 1 source(s)." in shown.text
    assert "Marie and Pierre Curie found polonium [1]." in shown.text
    if host_type.keeps_structure:
        assert shown.structured["references"][0]["filePath"] == "curie.md"
    ((path, headers, body),) = server.requests
    assert path == "/query"
    assert headers["X-API-Key"] == KEY
    assert json.loads(body)["query"] == "Who found polonium?"


@every_host
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "question is required"),
        ({"question": 7}, "question must be text"),
        ({**QUESTION, "topK": "many"}, "topK must be a whole number"),
        ({**QUESTION, "mode": "guess"}, "mode must be one of"),
        ({**QUESTION, "topk": 3}, "topk is not an argument of this tool (did you mean topK?)"),
        # Names that a framework might keep for itself.
        ({**QUESTION, "config": {}}, "config is not an argument"),
        ({**QUESTION, "run_manager": 1}, "run_manager is not an argument"),
        ({**QUESTION, "callbacks": []}, "callbacks is not an argument"),
        ({**QUESTION, "self": "me"}, "self is not an argument"),
        ({**QUESTION, "ctx": 1}, "ctx is not an argument"),
        ({**QUESTION, "name": "x"}, "name is not an argument"),
    ],
)
async def test_tells_what_is_wrong_with_arguments(host_type, server, settings, arguments, told):
    async with host_type(settings) as host:
        shown = await host.call("dsh_lightrag_query", arguments)
    assert shown.failed
    assert "dsh-lightrag (invalid-argument): " in shown.text
    assert told in shown.text
    assert "Hint: Correct the argument named above and call again." in shown.text
    assert server.requests == []


@every_host
async def test_takes_null_for_an_optional_argument_left_out(host_type, settings):
    async with host_type(settings) as host:
        shown = await host.call("dsh_lightrag_query", {**QUESTION, "mode": None, "topK": None})
    assert not shown.failed


@pytest.mark.parametrize("host_type", [PydanticAI, OpenAIAgents])
async def test_tells_that_arguments_must_be_an_object(host_type, settings):
    async with host_type(settings) as host:
        shown = await host.call("dsh_lightrag_status", ["question"])
    assert "dsh-lightrag (invalid-argument): The arguments must be one JSON object." in shown.text


@every_host
async def test_shows_a_refusal_of_the_server_as_an_error_without_the_key(host_type, server):
    async with host_type(everything_on(server)) as host:
        shown = await host.call("dsh_lightrag_insert", {"text": "Polonium.", "source": "curie.md"})
    assert shown.failed
    assert "dsh-lightrag (conflict): HTTP 409." in shown.text
    assert "A document named curie.md exists" in shown.text
    assert "Hint: Use another source name" in shown.text
    assert KEY not in shown.text


@every_host
async def test_shows_a_server_that_is_down_as_an_error(host_type):
    down = LightRagSettings(endpoint="http://127.0.0.1:9", apiKey=KEY)
    async with host_type(down) as host:
        shown = await host.call("dsh_lightrag_query", QUESTION)
    assert shown.failed
    assert "dsh-lightrag (unreachable): http://127.0.0.1:9 did not answer" in shown.text
    assert "Hint: Check that the LightRAG server runs" in shown.text


class NoArgs(Args):
    """Nothing."""


class NoResult(Result):
    """Nothing."""


async def _burst(*_):
    raise RuntimeError("secret detail")


BROKEN = Tool(
    name="broken",
    title="Broken",
    summary="Never works.",
    access=Access.READ,
    args=NoArgs,
    result=NoResult,
    run=_burst,
    show=lambda _: None,
)


@every_host
async def test_shows_a_bug_as_a_failure_that_tells_nothing(host_type, settings, capfd):
    async with Dispatcher(settings, (BROKEN,)) as dispatcher, host_type(dispatcher) as host:
        shown = await host.call("broken", {})
    assert shown.failed
    assert "dsh-lightrag: broken failed by a fault of the plugin itself" in shown.text
    assert "secret detail" not in shown.text
    (record,) = [
        json.loads(line) for line in capfd.readouterr().err.splitlines() if '"tool"' in line
    ]
    assert record["outcome"] == "bug"


@pytest.mark.parametrize("host_type", AWAITING_HOSTS, ids=lambda host: host.__name__)
async def test_cancelling_the_hosts_task_ends_the_request(host_type, server, settings, capfd):
    server.hang()
    async with host_type(settings) as host:
        call = asyncio.create_task(host.call("dsh_lightrag_query", QUESTION))
        assert await asyncio.to_thread(server.asked.wait, WAIT_S)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(server.left.wait, WAIT_S)
    (record,) = [
        json.loads(line) for line in capfd.readouterr().err.splitlines() if '"tool"' in line
    ]
    assert record["outcome"] == "cancelled"


@every_host
async def test_offers_writes_only_when_they_are_switched_on(host_type, server, settings):
    async with host_type(settings) as host:
        names = [name for name, _, _ in await host.definitions()]
    assert names == ["dsh_lightrag_query", "dsh_lightrag_documents", "dsh_lightrag_status"]
    async with host_type(everything_on(server)) as host:
        shown = await host.call("dsh_lightrag_scan", {})
    assert not shown.failed
    assert "was started" in shown.text
    assert [path for path, _, _ in server.requests] == ["/documents/scan"]


@every_host
async def test_offers_nothing_when_the_plugin_is_off(host_type, server):
    async with host_type(LightRagSettings(endpoint=server.url, enabled=False)) as host:
        assert await host.definitions() == []


@every_host
async def test_leaves_no_connection_open(host_type, server, settings):
    async with host_type(settings) as host:
        await host.call("dsh_lightrag_query", QUESTION)
    assert await asyncio.to_thread(server.idle_left.wait, WAIT_S)


@every_host
async def test_leaves_a_dispatcher_that_was_passed_to_its_owner(host_type, server, settings):
    async with toolbox(settings) as dispatcher:
        await dispatcher.call("dsh_lightrag_query", QUESTION)
        async with host_type(dispatcher) as host:
            await host.call("dsh_lightrag_query", QUESTION)
        await dispatcher.call("dsh_lightrag_query", QUESTION)
    # Hosts that call without await have a loop, and so a connection, of their own.
    without_await = host_type.__name__.endswith("WithoutAwait") or host_type is Llm
    assert server.connections == 1 + without_await


async def test_openai_tells_that_arguments_must_be_json(settings):
    async with openai_agents.tools(settings) as tools:
        assert "must be one JSON object" in await tools[0].on_invoke_tool(None, '{"question": ')
        assert "question is required" in await tools[0].on_invoke_tool(None, "")


async def test_pydantic_ai_counts_wrong_arguments_as_retries_and_other_failures_not(settings):
    async with PydanticAI(settings) as host:
        await host.call("dsh_lightrag_query", {})
        assert host.last.outcome == "retried"
    async with PydanticAI(LightRagSettings(endpoint="http://127.0.0.1:9")) as host:
        await host.call("dsh_lightrag_query", QUESTION)
        assert host.last.outcome == "failed"


async def test_claude_answers_names_it_does_not_list(settings):
    async with ClaudeAgent(settings) as host:
        off = await host.call("dsh_lightrag_delete", {"documentId": "doc-1"})
        unknown = await host.call("dsh_lightrag_guess", {})
    assert off.failed
    assert "dsh-lightrag (disabled): dsh_lightrag_delete is switched off" in off.text
    assert unknown.failed
    assert unknown.text == "dsh-lightrag: there is no tool of that name."


async def test_claude_is_told_access_and_size(server):
    async with ClaudeAgent(everything_on(server)) as host:
        listed = {tool["name"]: tool for tool in await host.listed()}
    assert listed["dsh_lightrag_query"]["annotations"]["readOnlyHint"] is True
    assert listed["dsh_lightrag_delete"]["annotations"]["destructiveHint"] is True
    assert listed["dsh_lightrag_query"]["_meta"] == {"anthropic/maxResultSizeChars": 48000}
