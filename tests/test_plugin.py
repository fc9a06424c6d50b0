"""The plugin applied to a host: what is registered, in what order, and what is left afterwards."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.metadata
import inspect
import json

import anyio
import pytest

from dsh_lightrag import TOOLS, Code, ConfigurationError, LightRagError, UnknownToolError
from dsh_lightrag.harness import DuplicateToolError, ReferenceHost
from dsh_lightrag.plugin import apply

READS = ["dsh_lightrag_query", "dsh_lightrag_documents", "dsh_lightrag_status"]
EVIDENCE = "dsh_lightrag_query_data"
WRITES = ["dsh_lightrag_insert", "dsh_lightrag_scan", "dsh_lightrag_delete"]
WRITES_ON = {"writes": {"enabled": True}}
EVIDENCE_ON = {"evidence": {"enabled": True}}
KEY = "canary-key-5d1f"
ARGUMENTS = {
    "dsh_lightrag_insert": {"text": "a text"},
    "dsh_lightrag_scan": {},
    "dsh_lightrag_delete": {"documentId": "doc-1"},
    EVIDENCE: {"query": "a question"},
}


def names_of(host):
    return [tool.name for tool in host.tools]


def tools_under(config):
    host = ReferenceHost()
    apply(host, config)
    return names_of(host)


def kept_tool(name):
    """A tool that a host kept from a plugin that has been disposed."""
    host = ReferenceHost()
    dispose = apply(host, WRITES_ON | EVIDENCE_ON)
    (tool,) = (tool for tool in host.tools if tool.name == name)
    dispose()
    return tool


class RegisterOnly:
    """A host that has nothing but `register`, and keeps a diary."""

    def __init__(self, refuse_at=None):
        self.diary = []
        self.kept = {}
        self._refuse_at = refuse_at

    def register(self, tool):
        if tool.name == self._refuse_at:
            raise RuntimeError("the host is full")
        self.diary.append(f"+{tool.name}")
        self.kept[tool.name] = tool
        return lambda: self.diary.append(f"-{tool.name}")


# --- R1: the entry point ----------------------------------------------------------------------


def test_the_plugin_is_found_by_its_entry_point():
    found = importlib.metadata.entry_points(group="dsh.plugins", name="dsh-lightrag")
    assert {point.value for point in found} == {"dsh_lightrag.plugin:apply"}
    assert {point.load() for point in found} == {apply}


def test_applying_is_synchronous_and_needs_nothing_but_register():
    host = RegisterOnly()
    dispose = apply(host, {})
    assert not inspect.isawaitable(dispose)
    assert host.diary == [f"+{name}" for name in READS]
    assert dispose() is None


def test_disposing_unregisters_in_reverse_order_and_once():
    host = RegisterOnly()
    dispose = apply(host, {})
    host.diary.clear()
    dispose()
    dispose()
    assert host.diary == [f"-{name}" for name in reversed(READS)]


def test_when_the_host_refuses_a_tool_those_before_it_are_unregistered(capsys):
    host = RegisterOnly(refuse_at=READS[2])
    with pytest.raises(RuntimeError, match="the host is full"):
        apply(host, {})
    assert host.diary == [f"+{READS[0]}", f"+{READS[1]}", f"-{READS[1]}", f"-{READS[0]}"]
    assert capsys.readouterr().err == ""


async def test_a_tool_left_from_a_refused_application_answers_disabled(httpx_mock):
    host = RegisterOnly(refuse_at=READS[2])
    with pytest.raises(RuntimeError):
        apply(host, {})
    with pytest.raises(LightRagError) as caught:
        await host.kept[READS[0]]({"question": "anything?"})
    assert caught.value.code is Code.DISABLED
    assert httpx_mock.get_requests() == []


# --- R2 to R5: what is there ------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, {}, {"lightrag": {}}, {"lightrag": None}])
def test_by_default_the_three_read_tools_are_registered_in_order(config):
    assert tools_under(config) == READS


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (WRITES_ON, READS + WRITES),
        (EVIDENCE_ON, [*READS, EVIDENCE]),
        (WRITES_ON | EVIDENCE_ON, [*READS, EVIDENCE, *WRITES]),
        ({"lightrag": WRITES_ON}, READS + WRITES),
        ({"enabled": False} | WRITES_ON | EVIDENCE_ON, []),
    ],
)
def test_switches_append_their_tools_in_catalog_order(config, expected):
    assert tools_under(config) == expected


@pytest.mark.parametrize("name", [*WRITES, EVIDENCE])
async def test_a_stale_reference_answers_disabled_without_a_request(httpx_mock, name):
    with pytest.raises(LightRagError) as caught:
        await kept_tool(name)(ARGUMENTS[name])
    assert caught.value.code is Code.DISABLED
    assert httpx_mock.get_requests() == []


@pytest.mark.parametrize(
    ("name", "switch"),
    [*((name, "writes.enabled") for name in WRITES), (EVIDENCE, "evidence.enabled")],
)
async def test_a_tool_bound_while_its_switch_is_off_names_the_switch(httpx_mock, name, switch):
    host = ReferenceHost()
    apply(host, {})
    stale = [type(host.tools[0])(tool, host.tools[0].caller) for tool in TOOLS if tool.name == name]
    with pytest.raises(LightRagError, match=switch) as caught:
        await stale[0](ARGUMENTS[name])
    assert caught.value.code is Code.DISABLED
    assert httpx_mock.get_requests() == []


async def test_a_name_outside_the_catalog_is_the_hosts_own_error(httpx_mock):
    host = ReferenceHost()
    apply(host, {})
    for name in ("dsh_lightrag_drop", "dsh_lightrag_insert"):
        with pytest.raises(UnknownToolError, match="dsh_lightrag_query"):
            await host.call(name)
    assert httpx_mock.get_requests() == []


async def test_two_applications_do_not_touch_each_other(httpx_mock):
    httpx_mock.add_response(
        url="http://one:9621/documents/scan",
        json={"status": "scanning_started", "message": "m", "track_id": "t"},
    )
    one, two = ReferenceHost(), ReferenceHost()
    dispose_one = apply(one, {"endpoint": "http://one:9621", "apiKey": "key-one"} | WRITES_ON)
    dispose_two = apply(two, {"endpoint": "http://two:9621", "apiKey": "key-two"})
    assert (names_of(one), names_of(two)) == (READS + WRITES, READS)
    dispose_two()
    await one.call("dsh_lightrag_scan")
    (request,) = httpx_mock.get_requests()
    assert request.headers["X-API-Key"] == "key-one"
    assert (names_of(one), names_of(two)) == (READS + WRITES, [])
    dispose_one()


def test_two_applications_on_one_host_are_refused_as_a_whole():
    host = ReferenceHost()
    apply(host, {})
    with pytest.raises(DuplicateToolError):
        apply(host, WRITES_ON)
    assert names_of(host) == READS


def test_a_hosts_old_disposer_leaves_a_later_registration_alone():
    lender, host = ReferenceHost(), ReferenceHost()
    apply(lender, {})
    tool, same_name = lender.tools[0], dataclasses.replace(lender.tools[0])
    dispose = host.register(tool)
    dispose()
    host.register(same_name)
    dispose()
    assert host.tools == (same_name,)


def test_an_old_disposer_leaves_a_later_application_alone():
    host = ReferenceHost()
    dispose = apply(host, {})
    dispose()
    apply(host, WRITES_ON)
    dispose()
    assert names_of(host) == READS + WRITES


async def test_the_environment_adds_nothing_but_the_key(monkeypatch, httpx_mock):
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "true")
    monkeypatch.setenv("LIGHTRAG_EVIDENCE__ENABLED", "true")
    monkeypatch.setenv("LIGHTRAG_ENDPOINT", "http://elsewhere:1")
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)
    httpx_mock.add_response(url="http://127.0.0.1:9621/health", json={"status": "healthy"})
    httpx_mock.add_response(
        url="http://127.0.0.1:9621/documents/status_counts", json={"status_counts": {}}
    )
    host = ReferenceHost()
    dispose = apply(host, {})
    assert names_of(host) == READS
    await host.call("dsh_lightrag_status")
    assert {request.headers["X-API-Key"] for request in httpx_mock.get_requests()} == {KEY}
    dispose()


# --- R6: a configuration that cannot work -----------------------------------------------------


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"endpoint": "127.0.0.1:9621"}, "endpoint"),
        ({"endpoint": "http://u:p@host"}, "endpoint"),
        ({"apiKey": "caf\u00e9"}, "apiKey"),
        ({"writes": {"enabled": "true"}}, "writes.enabled"),
        ({"write": {"enabled": True}}, "write"),
        ({"toolFilter": {"allow": []}}, "toolFilter"),
        ({"lightrag": {}, "endpoint": "http://host"}, "endpoint"),
        ({"enabled": False, "topK": 5}, "topK"),
        ([], "config"),
        ("text", "config"),
        ({"lightrag": []}, "config"),
        ({1: 2}, "config"),
    ],
)
def test_a_configuration_that_cannot_work_registers_nothing_and_names_the_key(config, key, capsys):
    host = RegisterOnly()
    with pytest.raises(ConfigurationError) as caught:
        apply(host, config)
    assert caught.value.key == key
    assert host.diary == []
    assert capsys.readouterr().err == ""


def test_an_unknown_key_names_the_nearest_known():
    with pytest.raises(ConfigurationError, match="timeoutMs"):
        apply(ReferenceHost(), {"timeoutMS": 5000})


# --- R7: the record ---------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "key_set"), [({}, False), ({"apiKey": KEY}, True)])
def test_applying_logs_one_record_without_the_key(capsys, config, key_set):
    apply(ReferenceHost(), config | {"endpoint": "HTTP://LocalHost:80/"})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert KEY not in printed.err
    (record,) = [json.loads(line) for line in printed.err.splitlines()]
    assert record.pop("timestamp")
    assert record == {
        "event": "plugin_applied",
        "level": "info",
        "tools": READS,
        "endpoint": "http://localhost",
        "key_set": key_set,
    }


# --- R8: one catalog --------------------------------------------------------------------------


def test_a_registered_tool_is_what_the_catalog_says():
    host = ReferenceHost()
    apply(host, WRITES_ON | EVIDENCE_ON)
    told = (
        "name",
        "title",
        "description",
        "access",
        "annotations",
        "input_schema",
        "output_schema",
        "digest",
    )
    for registered, tool in zip(host.tools, TOOLS, strict=True):
        assert [getattr(registered, name) for name in told] == [
            getattr(tool, name) for name in told
        ]


async def test_a_host_with_an_allow_list_shows_and_calls_no_more(httpx_mock):
    host = ReferenceHost(allow=["dsh_lightrag_status", "web_search"])
    apply(host, WRITES_ON)
    assert names_of(host) == ["dsh_lightrag_status"]
    with pytest.raises(UnknownToolError):
        await host.call("dsh_lightrag_scan")
    assert httpx_mock.get_requests() == []


# --- closing ----------------------------------------------------------------------------------


class Upstream:
    """A LightRAG server of one answer, which knows who is connected."""

    def __init__(self, *, answers=True):
        self._answers = answers
        self.asked = asyncio.Event()
        self.all_gone = asyncio.Event()
        self._connected = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.config = {"endpoint": f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"}
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self._connected += 1
        body = b'{"status": "healthy", "status_counts": {}}'
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        while await reader.readline():
            self.asked.set()
            if self._answers:
                while await reader.readline() != b"\r\n":
                    pass
                writer.write(head + body)
        writer.close()
        self._connected -= 1
        if self._connected == 0:
            self.all_gone.set()


async def test_disposing_inside_a_loop_closes_the_connections():
    async with Upstream() as upstream:
        host = ReferenceHost()
        dispose = apply(host, upstream.config)
        await host.call("dsh_lightrag_status")
        dispose()
        with anyio.fail_after(5):
            await upstream.all_gone.wait()


async def test_disposing_ends_a_call_under_way_with_a_typed_error():
    async with Upstream(answers=False) as upstream:
        host = ReferenceHost()
        dispose = apply(host, upstream.config)
        call = asyncio.ensure_future(host.call("dsh_lightrag_status"))
        with anyio.fail_after(5):
            await upstream.asked.wait()
            dispose()
            with pytest.raises(LightRagError) as caught:
                await call
            await upstream.all_gone.wait()
        assert caught.value.code is Code.UNREACHABLE


async def test_disposing_from_another_thread_closes_the_connections_in_their_loop():
    async with Upstream() as upstream:
        host = ReferenceHost()
        dispose = apply(host, upstream.config)
        await host.call("dsh_lightrag_status")
        await asyncio.to_thread(dispose)
        with anyio.fail_after(5):
            await upstream.all_gone.wait()


async def test_disposing_as_the_last_thing_a_program_does_closes_the_connections(recwarn):
    async with Upstream() as upstream:

        async def main():
            host = ReferenceHost()
            dispose = apply(host, upstream.config)
            await host.call("dsh_lightrag_status")
            dispose()

        with anyio.fail_after(20):
            await asyncio.to_thread(asyncio.run, main())
            await upstream.all_gone.wait()
    assert [str(warning.message) for warning in recwarn] == []


async def test_disposing_while_the_loop_rests_closes_the_connections():
    async with Upstream() as upstream:

        def program():
            host = ReferenceHost()
            dispose = apply(host, upstream.config)
            with asyncio.Runner() as runner:
                runner.run(host.call("dsh_lightrag_status"))
                dispose()

        with anyio.fail_after(20):
            await asyncio.to_thread(program)
            await upstream.all_gone.wait()


async def test_disposing_in_another_loop_closes_the_connections_when_theirs_runs_again():
    async with Upstream() as upstream:

        def program():
            host = ReferenceHost()
            dispose = apply(host, upstream.config)

            async def elsewhere():
                dispose()

            with asyncio.Runner() as runner:
                runner.run(host.call("dsh_lightrag_status"))
                asyncio.run(elsewhere())

        with anyio.fail_after(20):
            await asyncio.to_thread(program)
            await upstream.all_gone.wait()


def test_disposing_after_the_loop_has_been_closed_is_quiet(httpx_mock):
    httpx_mock.add_response(url="http://127.0.0.1:9621/health", json={"status": "healthy"})
    httpx_mock.add_response(
        url="http://127.0.0.1:9621/documents/status_counts", json={"status_counts": {}}
    )
    host = ReferenceHost()
    dispose = apply(host, {})
    loop = asyncio.new_event_loop()
    loop.run_until_complete(host.call("dsh_lightrag_status"))
    loop.close()
    dispose()
    assert names_of(host) == []


def test_disposing_what_never_called_needs_no_loop():
    dispose = apply(ReferenceHost(), {})
    dispose()
    dispose()
