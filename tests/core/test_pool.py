"""T9 of the contract: whose connections they are, in which event loop, and over what."""

from __future__ import annotations

import asyncio

import httpx

from dsh_lightrag import toolbox
from dsh_lightrag.transport import Transport

from .support import ARGUMENTS, PREFIX, body_of, reply, settings_for


def test_one_dispatcher_works_under_two_event_loops(httpx_mock):
    httpx_mock.add_response(json=body_of("query_mix"), is_reusable=True)
    tools = toolbox(settings_for())

    async def once():
        outcome = await tools.call("dsh_lightrag_query", ARGUMENTS["query"])
        await tools.aclose()
        return outcome.structured

    assert asyncio.run(once()) == asyncio.run(once())


async def test_the_same_tools_work_over_an_asgi_application_in_process():
    seen = []

    async def app(scope, receive, send):
        body = (await receive())["body"]
        seen.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        answer = b'{"response":"in process","llm_generated":true}'
        await send({"type": "http.response.body", "body": answer})

    settings = settings_for(basePath="/base")
    transport = Transport(settings.connection, inner=httpx.ASGITransport(app))
    async with transport, toolbox(settings, transport=transport) as tools:
        outcome = await tools.call(PREFIX + "query", ARGUMENTS["query"])
    assert outcome.structured["answer"] == "in process"
    assert [(method, path) for method, path, _ in seen] == [("POST", "/base/query")]


class Closable(httpx.MockTransport):
    closed = 0

    async def aclose(self):
        self.closed += 1


async def test_whoever_opened_the_transport_closes_it():
    inner = Closable(lambda _: reply(body_of("query_mix")))
    settings = settings_for()
    transport = Transport(settings.connection, inner=inner)
    async with toolbox(settings, transport=transport) as tools:
        await tools.call(PREFIX + "query", ARGUMENTS["query"])
    assert inner.closed == 0
    await transport.aclose()
    await transport.aclose()
    assert inner.closed == 1


async def test_one_pool_is_reused_across_calls(monkeypatch, httpx_mock):
    opened = []
    real = httpx.AsyncHTTPTransport.__init__

    def counting(self, *args, **kwargs):
        opened.append(self)
        real(self, *args, **kwargs)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "__init__", counting)
    httpx_mock.add_response(json=body_of("query_mix"), is_reusable=True)
    async with toolbox(settings_for()) as tools:
        assert opened == []
        for _ in range(3):
            await tools.call(PREFIX + "query", ARGUMENTS["query"])
    assert len(opened) == 1
