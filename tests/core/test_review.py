"""What a careful reader of the contract found missing, one sentence each."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time

import anyio
import httpx
import pytest

from dsh_lightrag import (
    Code,
    ConfigurationError,
    LightRagError,
    LightRagSettings,
    toolbox,
)
from dsh_lightrag.loop_thread import run
from dsh_lightrag.transport import Transport

from .support import ARGUMENTS, ENDPOINT, PREFIX, body_of, call, call_over, failure, reply


async def test_a_process_without_stderr_writes_its_log_nowhere(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    await call_over(lambda _: reply(body_of("query_mix")), "query")
    assert capsys.readouterr().out == ""


async def test_a_log_that_cannot_be_written_costs_no_result(monkeypatch):
    class Full:
        def write(self, _text):
            raise OSError(28, "No space left on device")

        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    outcome = await call_over(lambda _: reply(body_of("query_mix")), "query")
    assert outcome.structured["llmGenerated"] is True


def test_the_end_of_a_call_waits_for_no_silent_resolver(monkeypatch):
    silent = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: silent.wait(20) or [])

    async def once():
        async with toolbox(LightRagSettings(endpoint="http://kb.invalid", timeoutMs=1000)) as tools:
            with pytest.raises(LightRagError) as caught:
                await tools.call("dsh_lightrag_query", ARGUMENTS["query"])
        return caught.value.code

    started = time.monotonic()
    try:
        assert run(once()) is Code.TIMEOUT
        assert time.monotonic() - started < 5
    finally:
        silent.set()


async def test_a_failed_backend_of_an_older_server_is_no_answer():
    old = {"response": "No relevant context found for the query.", "references": []}
    outcome = await call_over(lambda _: reply(old), "query")
    assert outcome.structured["llmGenerated"] is False
    assert "backend failed" in outcome.text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LIGHTRAG_ENDPOINT", "ftp://x"),
        ("LIGHTRAG_API_KEY", "ké"),
        ("LIGHTRAG_CA_FILE", "/nowhere/ca.pem"),
        ("LIGHTRAG_BASE_PATH", "no-slash"),
    ],
)
def test_a_variable_that_cannot_work_is_named_as_a_variable(variable, value, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as caught:
        LightRagSettings.from_env()
    assert caught.value.key == variable
    assert value not in str(caught.value) or variable == "LIGHTRAG_ENDPOINT"


def test_an_override_that_cannot_work_is_named_as_the_caller_spells_it(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_ENDPOINT", "http://good")
    with pytest.raises(ConfigurationError) as caught:
        LightRagSettings.from_env(endpoint="ftp://x")
    assert caught.value.key == "endpoint"


async def test_a_punycode_endpoint_is_the_origin_that_it_is(httpx_mock):
    httpx_mock.add_response(json=body_of("query_mix"))
    outcome = await call("query", endpoint="http://xn--mnchen-3ya.example")
    assert outcome.structured["answer"]


@pytest.mark.parametrize("status", ["error", "failure", "", "Success", "SUCCESS!", "partial"])
@pytest.mark.parametrize("tool", ["insert", "scan", "delete"])
async def test_a_write_that_did_not_begin_is_never_told_as_begun(tool, status):
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: reply({"status": status, "message": "no"}), tool)
    assert caught.value.code is Code.SERVER_ERROR


async def test_an_authority_that_vanished_is_unreachable_not_a_bug(tmp_path):
    import trustme  # noqa: PLC0415 - the one test that needs it

    path = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    settings = LightRagSettings(endpoint="https://127.0.0.1:9", caFile=str(path))
    path.unlink()
    async with toolbox(settings) as tools:
        with pytest.raises(LightRagError) as caught:
            await tools.call("dsh_lightrag_status", {})
    assert caught.value.code is Code.UNREACHABLE


async def test_a_listing_that_shrank_while_it_was_read_says_to_list_again():
    row = {"status": "processed"}
    pages = [
        {
            "documents": [{"id": f"d{n}", **row} for n in range(200)],
            "pagination": {"total_count": 240, "has_next": True},
        },
        {
            "documents": [{"id": f"d{n}", **row} for n in range(210, 230)],
            "pagination": {"total_count": 220, "has_next": False},
        },
    ]
    outcome = await call_over(
        lambda _: reply(pages.pop(0)), "documents", documents={"maxListed": 500}
    )
    assert outcome.structured["truncated"] is True
    assert "list again" in outcome.text
    assert "raise limit" not in outcome.text


async def test_an_identity_encoding_that_is_announced_keeps_the_detail():
    answer = reply({"detail": "Pipeline is recovering."}, 503, **{"Content-Encoding": "identity"})
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: answer, "scan")
    assert caught.value.code is Code.BUSY


async def test_a_workspace_is_confirmed_once_per_call_by_siblings_too():
    asked = []

    async def server(request):
        asked.append((request.url.path, request.headers.get("LIGHTRAG-WORKSPACE")))
        await asyncio.sleep(0)
        body = {"status": "healthy", "workspace_isolation": True, "status_counts": {"all": 0}}
        return reply(body)

    with anyio.fail_after(5):
        await call_over(server, "status", workspace="team_a")
    assert sorted(asked, key=str) == [
        ("/documents/status_counts", "team_a"),
        ("/health", "team_a"),
        ("/health", None),
    ]


@pytest.mark.parametrize(("tool", "argument"), [("query", "topK"), ("documents", "limit")])
async def test_a_boolean_is_no_number(tool, argument, httpx_mock):
    error = await failure(tool, {**ARGUMENTS[tool], argument: True})
    assert (error.code, argument in error.message) == (Code.INVALID_ARGUMENT, True)
    assert not httpx_mock.get_requests()


async def test_a_withdrawn_tool_says_so_and_sends_nothing():
    asked = []

    def server(request):
        asked.append(request)
        return reply(body_of("query_mix"))

    settings = LightRagSettings(endpoint=ENDPOINT)
    async with Transport(settings.connection, inner=httpx.MockTransport(server)) as transport:
        tools = toolbox(settings, transport=transport)
        tools.withdraw()
        with pytest.raises(LightRagError) as caught:
            await tools.call(PREFIX + "query", ARGUMENTS["query"])
    assert caught.value.code is Code.DISABLED
    assert "withdrawn" in caught.value.message
    assert (tools.tools, asked) == ((), [])


async def test_a_fault_is_named_by_our_fields_and_never_by_the_servers_keys():
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: reply({"documents": [{"id": 5, "status": "x"}]}), "documents")
    assert "documents.0.id" in caught.value.message
    with pytest.raises(LightRagError) as caught:
        await call_over(
            lambda _: reply({"documents": [], "status_counts": {"EVIL": "x"}}), "documents"
        )
    assert "EVIL" not in caught.value.message
