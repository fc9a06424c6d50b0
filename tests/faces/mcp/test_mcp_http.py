"""Streamable HTTP over real sockets: revisions, sessions, streams, and who may come in."""

from __future__ import annotations

import json

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_support import ARGUMENTS, BOUND_S

from dsh_lightrag import TOOLS, ConfigurationError
from dsh_lightrag.faces.mcp.door import Door
from dsh_lightrag.faces.mcp.http import app_of
from dsh_lightrag.listening import ANY_ADDRESS

NAMES = [tool.name for tool in TOOLS]
QUERY = {"name": NAMES[0], "arguments": ARGUMENTS[NAMES[0]]}
LOCAL = Door("127.0.0.1", 9622)
TOKENS = ("token-one", "token-two")


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def answer_of(response):
    """Return the last JSON-RPC message of a body or of a stream of events."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    data = [line for line in response.text.splitlines() if line.startswith("data: {")]
    return json.loads(data[-1].removeprefix("data: "))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("json_response", [False, True])
async def test_the_sdk_client_lists_and_calls_in_both_eras(serving, listen, mode, json_response):
    door = await listen(app_of(serving(), LOCAL, json_response=json_response))
    with anyio.fail_after(BOUND_S):
        async with Client(streamable_http_client(door.url), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
            result = await client.call_tool(NAMES[0], ARGUMENTS[NAMES[0]])
            assert "Marie Curie did." in result.content[0].text


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_older_revisions_open_a_session_and_are_answered_with_events(
    serving, listen, revision
):
    door = await listen(app_of(serving(), LOCAL))
    session = await door.open_session(revision)
    called = await door.post("tools/call", QUERY, revision=revision, mcp_session_id=session)
    assert called.headers["content-type"].startswith("text/event-stream")
    assert not answer_of(called)["result"].get("isError")


async def test_2026_07_28_is_served_without_a_session(serving, listen):
    door = await listen(app_of(serving(), LOCAL))
    called = await door.post("tools/call", QUERY, revision="2026-07-28")
    assert called.status_code == 200, called.text
    assert "mcp-session-id" not in called.headers
    assert answer_of(called)["result"]["structuredContent"]["referenceCount"] == 1


async def test_json_is_answered_when_asked_for(serving, listen):
    door = await listen(app_of(serving(), LOCAL, json_response=True))
    session = await door.open_session()
    called = await door.post("tools/call", QUERY, mcp_session_id=session)
    assert called.headers["content-type"] == "application/json"
    assert called.json()["result"]["content"][0]["type"] == "text"


# --- sessions ---------------------------------------------------------------------------------


async def test_an_idle_session_expires(serving, listen):
    door = await listen(app_of(serving(), LOCAL, idle_s=0.05))
    session = await door.open_session()
    with anyio.fail_after(BOUND_S):
        # Every request keeps the session alive, so there is a pause between two of them.
        while (await door.post("ping", mcp_session_id=session)).status_code == 200:  # noqa: ASYNC110 - as above
            await anyio.sleep(0.1)


async def test_sessions_are_bounded_and_room_comes_back(serving, listen):
    door = await listen(app_of(serving(), LOCAL, max_sessions=1))
    session = await door.open_session()
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    }
    assert (await door.post("initialize", hello)).status_code == 503
    await door.http.delete(door.url, headers={"mcp-session-id": session})
    assert (await door.post("initialize", hello)).status_code == 200


async def test_a_session_answers_only_to_the_token_that_opened_it(serving, listen):
    door = await listen(app_of(serving(), Door("127.0.0.1", 0, tokens=TOKENS)))
    session = await door.open_session(**bearer(TOKENS[0]))
    own = await door.post("ping", mcp_session_id=session, **bearer(TOKENS[0]))
    other = await door.post("ping", mcp_session_id=session, **bearer(TOKENS[1]))
    none = await door.post("ping", mcp_session_id=session)
    assert (own.status_code, other.status_code, none.status_code) == (200, 404, 401)


# --- who may come in --------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    "authorization", [None, "Bearer token-three", "Bearer", "Basic dG9rZW4tb25l", "token-one"]
)
async def test_without_a_known_token_nothing_is_answered(
    serving, listen, knowledge, revision, authorization
):
    door = await listen(app_of(serving(), Door("127.0.0.1", 0, tokens=TOKENS)))
    headers = {} if authorization is None else {"authorization": authorization}
    refused = await door.post("tools/call", QUERY, revision=revision, **headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert knowledge.paths == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_known_token_is_answered(serving, listen, revision):
    door = await listen(app_of(serving(), Door("127.0.0.1", 0, tokens=TOKENS)))
    for token in TOKENS:
        if revision < "2026":
            session = {"mcp_session_id": await door.open_session(**bearer(token))}
        else:
            session = {}
        called = await door.post("tools/call", QUERY, revision=revision, **session, **bearer(token))
        assert called.status_code == 200


FOREIGN = [
    ("host", "evil.example", 421),
    ("host", "evil.example:9622", 421),
    ("host", "localhost.evil.example:9622", 421),
    ("host", "127.0.0.1.evil.example", 421),
    ("origin", "http://evil.example", 403),
    ("origin", "null", 403),
    ("origin", "http://localhost.evil.example", 403),
]


@pytest.mark.parametrize("host", ["127.0.0.1", *ANY_ADDRESS])
@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_foreign_host_or_origin_is_refused_on_every_path(serving, listen, host, foreign):
    header, value, status = foreign
    door = await listen(app_of(serving(), Door(host, 0, tokens=TOKENS)))
    for revision in ("2025-11-25", "2026-07-28"):
        refused = await door.post(
            "tools/list", revision=revision, **bearer(TOKENS[0]), **{header: value}
        )
        assert refused.status_code == status
    elsewhere = door.url.removesuffix("/mcp") + "/elsewhere"
    assert (await door.http.get(elsewhere, headers={header: value})).status_code == status


@pytest.mark.parametrize("host", ["127.0.0.1", *ANY_ADDRESS])
async def test_this_machine_and_allowed_names_are_let_in(serving, listen, host):
    allowed = Door(
        host,
        0,
        hosts=("kb.example", "exact.example:80"),
        origins=("https://app.example",),
        tokens=TOKENS,
    )
    door = await listen(app_of(serving(), allowed))
    for headers in (
        {},
        {"host": "localhost:1234", "origin": "http://localhost:6274"},
        {"host": "[::1]:9622"},
        {"host": "kb.example", "origin": "https://app.example"},
        {"host": "kb.example:8443", "origin": "https://kb.example:8443"},
        {"host": "exact.example:80"},
    ):
        answered = await door.post(
            "tools/list", revision="2026-07-28", **bearer(TOKENS[0]), **headers
        )
        assert answered.status_code == 200, headers
    refused = await door.post(
        "tools/list", revision="2026-07-28", host="exact.example:81", **bearer(TOKENS[0])
    )
    assert refused.status_code == 421


@pytest.mark.parametrize("host", [*ANY_ADDRESS, "192.0.2.7", "kb.example"])
def test_off_loopback_a_token_is_required(host):
    with pytest.raises(ConfigurationError, match="bearer token is required"):
        Door(host, 9622)
    assert Door(host, 9622, tokens=("t",)).security.enable_dns_rebinding_protection


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_none_is(host):
    assert Door(host, 9622).security.enable_dns_rebinding_protection


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": ("*",)},
        {"hosts": ("http://kb.example",)},
        {"hosts": ("kb.example/mcp",)},
        {"origins": ("kb.example",)},
        {"origins": ("https://kb.example/",)},
        {"origins": ("*",)},
        {"tokens": ("with blank",)},
        {"tokens": ("tökén",)},
    ],
)
def test_what_could_never_match_is_refused_at_the_start(wrong):
    with pytest.raises(ConfigurationError) as caught:
        Door("127.0.0.1", 9622, **wrong)
    assert "tökén" not in str(caught.value)


# --- slow calls -------------------------------------------------------------------------------


async def test_a_stream_that_the_client_drops_ends_the_call_in_2026_07_28(
    serving, listen, knowledge
):
    knowledge.silent = True
    door = await listen(app_of(serving(), LOCAL))
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:

            async def ask():
                await door.post("tools/call", QUERY, revision="2026-07-28")

            tasks.start_soon(ask)
            await knowledge.asked.wait()
            tasks.cancel_scope.cancel()
        await knowledge.left.wait()


async def test_a_cancelled_call_ends_in_a_session_too(serving, listen, knowledge):
    knowledge.silent = True
    door = await listen(app_of(serving(), LOCAL))
    session = await door.open_session()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:

            async def ask():
                await door.post("tools/call", QUERY, ident=7, mcp_session_id=session)

            tasks.start_soon(ask)
            await knowledge.asked.wait()
            cancelled = await door.post(
                "notifications/cancelled", {"requestId": 7}, ident=None, mcp_session_id=session
            )
            assert cancelled.status_code == 202
            await knowledge.left.wait()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_progress_arrives_on_the_call_s_own_stream(serving, listen, knowledge, revision):
    knowledge.silent = True
    door = await listen(app_of(serving(progress_every_s=0.01), LOCAL))
    session = {} if revision >= "2026" else {"mcp_session_id": await door.open_session(revision)}
    seen = []
    params = {**QUERY, "_meta": {"progressToken": "p-1"}}
    with anyio.fail_after(BOUND_S):
        request = door.request("tools/call", params, revision=revision, **session)
        async with door.http.stream(**request) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    seen.append(json.loads(line.removeprefix("data: ")))
                if len(seen) == 3:
                    break
    assert {message["method"] for message in seen} == {"notifications/progress"}
    assert {message["params"]["progressToken"] for message in seen} == {"p-1"}


async def test_a_body_over_the_cap_is_refused(serving, listen):
    door = await listen(app_of(serving(), LOCAL))
    refused = await door.post("tools/list", {"x": "y" * 5_000_000}, revision="2026-07-28")
    assert refused.status_code == 413


async def test_two_clients_do_not_mix(serving, listen):
    door = await listen(app_of(serving(), Door("127.0.0.1", 0, tokens=TOKENS)))

    async def ask(token):
        async with (
            httpx2.AsyncClient(headers=bearer(token)) as http,
            Client(streamable_http_client(door.url, http_client=http)) as client,
        ):
            for _ in range(5):
                assert not (await client.call_tool("dsh_lightrag_status")).is_error

    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            for token in TOKENS:
                tasks.start_soon(ask, token)
