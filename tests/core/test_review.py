"""What a careful reader of the contract found missing, one sentence each."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import httpx
import pytest

from dsh_lightrag import (
    Code,
    ConfigurationError,
    LightRagError,
    LightRagSettings,
    UnknownToolError,
    toolbox,
)
from dsh_lightrag.loop_thread import run
from dsh_lightrag.transport import OriginLock, Transport

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


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("error", Code.SERVER_ERROR),
        ("failure", Code.SERVER_ERROR),
        ("", Code.BAD_RESPONSE),
        ("Success", Code.BAD_RESPONSE),
        ("partial", Code.BAD_RESPONSE),
    ],
)
@pytest.mark.parametrize("tool", ["insert", "scan", "delete"])
async def test_a_write_that_did_not_begin_is_never_told_as_begun(tool, status, code):
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: reply({"status": status, "message": "no"}), tool)
    assert caught.value.code is code


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


def test_a_pipe_that_nobody_reads_stops_no_call():
    """A host that never drains its child's stderr loses records, not answers."""
    code = (
        "import asyncio, httpx\n"
        "from dsh_lightrag import LightRagSettings, toolbox\n"
        "from dsh_lightrag.transport import OriginLock, Transport\n"
        "def answer(_):\n"
        '    body = b\'{"response": "a", "llm_generated": true}\'\n'
        "    return httpx.Response(200, stream=httpx.ByteStream(body))\n"
        "wire = httpx.MockTransport(answer)\n"
        "async def main():\n"
        "    settings = LightRagSettings()\n"
        "    tools = toolbox(settings, Transport(settings.connection, inner=wire))\n"
        "    for _ in range(1000):\n"
        "        await tools.call('dsh_lightrag_query', {'question': 'who?'})\n"
        "asyncio.run(main())\n"
        "print('done')\n"
    )
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        timer = threading.Timer(60, process.kill)
        timer.start()
        assert process.stdout.read() == b"done\n"  # stderr is read by nobody until now
        timer.cancel()
        assert process.stderr.read().count(b"tool_call") < 1000


@pytest.mark.parametrize(
    "endpoint",
    ["http://256.256.256.256", "http://10.0.0.01:9621", "http://xn--a", "http://1.2.3", "http://9"],
)
def test_a_host_that_no_request_could_name_fails_while_loading(endpoint):
    with pytest.raises(ConfigurationError) as caught:
        LightRagSettings(endpoint=endpoint)
    assert caught.value.key == "endpoint"


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b'{"status": "healthy", "status_counts": {}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a closed loop's sockets, let go
def test_a_loop_per_call_leaks_no_connections():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tools = toolbox(LightRagSettings(endpoint=f"http://127.0.0.1:{server.server_port}"))
        for _ in range(5):
            asyncio.run(tools.call("dsh_lightrag_status", {}))
        gc.collect()  # what nobody holds counts for nothing, whenever Python would have looked
        held = [pool for pool in gc.get_objects() if isinstance(pool, OriginLock)]
        assert len(held) <= 2
        server.shutdown()
        del tools, held
        gc.collect()  # here, where the warning of what is let go is expected


def test_a_variable_in_lower_case_is_no_switch(monkeypatch):
    monkeypatch.setenv("lightrag_writes__enabled", "true")
    assert LightRagSettings.from_env().writes.enabled is False


@pytest.mark.parametrize("name", ["ENDPOINT", "CA_FILE", "QUERY__MODE", "TIMEOUT_MS"])
def test_a_blank_variable_is_an_unset_one(name, monkeypatch, capsys):
    monkeypatch.setenv(f"LIGHTRAG_{name}", "")
    assert LightRagSettings.from_env() == LightRagSettings()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", [[], {}, None, 5])
async def test_a_name_that_is_no_text_is_an_unknown_tool(name):
    async with toolbox(LightRagSettings()) as tools:
        with pytest.raises(UnknownToolError):
            await tools.call(name, {})
