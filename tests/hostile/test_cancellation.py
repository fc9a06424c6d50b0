"""The caller changes its mind: cancellation passes through, at once, and closes the connection."""

from __future__ import annotations

import asyncio
import json
import time

import anyio
import pytest

from dsh_lightrag import Code, toolbox

from . import behaviours as hostile
from .replies import ARGUMENTS
from .server import HostileServer, never_accepts
from .support import TOOL_NAMES, healthy, settings_for, try_call, until

MOMENTS = {
    "before the headers": hostile.never_answers,
    "in the headers": hostile.stalls_in_headers,
    "in the body": hostile.stalls_in_body,
    "in a body that keeps coming": hostile.drips_body(interval=0.02),
}


def outcomes_in(log):
    """Read the outcome of each call from the log, one JSON object per line."""
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [record["outcome"] for record in records if "outcome" in record]


@pytest.mark.parametrize("tool", TOOL_NAMES)
@pytest.mark.parametrize("behaviour", MOMENTS.values(), ids=MOMENTS)
async def test_a_cancelled_call_ends_at_once_and_closes_its_connection(behaviour, tool, capfd):
    with HostileServer(behaviour) as server:
        async with toolbox(settings_for(server.url, timeoutMs=60_000)) as dispatcher:
            call = asyncio.create_task(dispatcher.call(tool, ARGUMENTS[tool]))
            await until(lambda: server.requests)
            await anyio.sleep(0.05)  # into the headers or the body, where there is one
            started = time.monotonic()
            call.cancel("changed my mind")
            with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
                await call
            assert time.monotonic() - started < 0.5
            # Before the dispatcher is closed: the call itself has given its connections back.
            await until(lambda: server.open_connections == 0)
    log = capfd.readouterr().err
    assert outcomes_in(log) == ["cancelled"]
    assert "timeout" not in log


async def test_a_caller_with_a_deadline_of_its_own_sees_its_own_timeout(capfd):
    with HostileServer(hostile.never_answers) as server:
        async with toolbox(settings_for(server.url, timeoutMs=60_000)) as dispatcher:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await dispatcher.call("dsh_lightrag_query", ARGUMENTS["dsh_lightrag_query"])
            await until(lambda: server.open_connections == 0)
    assert outcomes_in(capfd.readouterr().err) == ["cancelled"]


async def test_a_cancelled_scope_of_anyio_ends_the_call():
    with HostileServer(hostile.stalls_in_body) as server:
        async with toolbox(settings_for(server.url, timeoutMs=60_000)) as dispatcher:
            with anyio.move_on_after(0.2) as scope:
                await dispatcher.call("dsh_lightrag_query", ARGUMENTS["dsh_lightrag_query"])
            assert scope.cancelled_caught
            await until(lambda: server.open_connections == 0)


async def test_a_call_cancelled_while_connecting_ends_at_once():
    with never_accepts() as url:
        async with toolbox(settings_for(url, timeoutMs=60_000)) as dispatcher:
            with anyio.fail_after(2), anyio.move_on_after(0.2) as scope:
                await dispatcher.call("dsh_lightrag_query", ARGUMENTS["dsh_lightrag_query"])
    assert scope.cancelled_caught


async def test_the_next_call_after_a_cancelled_one_works():
    with HostileServer(hostile.stalls_in_body) as server:
        async with toolbox(settings_for(server.url, timeoutMs=5000)) as dispatcher:
            for _ in range(20):
                with anyio.move_on_after(0.02):
                    await dispatcher.call("dsh_lightrag_query", ARGUMENTS["dsh_lightrag_query"])
            server.answer = healthy()
            assert (await try_call(dispatcher, "dsh_lightrag_query")).code is None


async def test_one_cancelled_call_leaves_its_neighbours_alone():
    with HostileServer(hostile.never_answers) as server:
        async with toolbox(settings_for(server.url, timeoutMs=1000)) as dispatcher:
            arguments = ARGUMENTS["dsh_lightrag_query"]
            calls = [
                asyncio.create_task(dispatcher.call("dsh_lightrag_query", arguments))
                for _ in range(3)
            ]
            await until(lambda: len(server.requests) == 3)
            calls[1].cancel()
            with anyio.fail_after(5):
                ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(end, "code", type(end)) for end in ends] == [
        Code.TIMEOUT,
        asyncio.CancelledError,
        Code.TIMEOUT,
    ]


async def test_closing_the_dispatcher_closes_idle_connections():
    with HostileServer(healthy()) as server:
        async with toolbox(settings_for(server.url)) as dispatcher:
            assert (await try_call(dispatcher, "dsh_lightrag_query")).code is None
        await until(lambda: server.open_connections == 0)
