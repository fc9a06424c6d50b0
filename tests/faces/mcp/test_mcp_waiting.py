"""Calls that take long: progress when asked for, and cancellation down to the HTTP call."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from mcp.client.client import Client
from mcp_support import ARGUMENTS, BOUND_S

QUERY = "dsh_lightrag_query"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_slow_call_tells_its_progress_when_the_client_asks(serving, knowledge, mode):
    knowledge.silent = True
    told = []
    enough = anyio.Event()

    async def progress(done, total, message):
        told.append((done, total, message))
        if len(told) == 3:
            enough.set()

    with anyio.fail_after(BOUND_S):
        async with (
            Client(serving(progress_every_s=0.01), mode=mode) as client,
            anyio.create_task_group() as tasks,
        ):

            async def ask():
                await client.call_tool(QUERY, ARGUMENTS[QUERY], progress_callback=progress)

            tasks.start_soon(ask)
            await enough.wait()
            tasks.cancel_scope.cancel()
    spent = [done for done, _, _ in told]
    assert spent == sorted(set(spent))
    assert all(total == 60 and message.startswith(QUERY) for _, total, message in told)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_cancelling_a_call_closes_its_connection_to_the_knowledge_server(
    serving, knowledge, mode
):
    knowledge.silent = True
    with anyio.fail_after(BOUND_S):
        async with Client(serving(), mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, QUERY, ARGUMENTS[QUERY])
                await knowledge.asked.wait()
                tasks.cancel_scope.cancel()
            await knowledge.left.wait()
            knowledge.silent = False
            assert not (await client.call_tool(QUERY, ARGUMENTS[QUERY])).is_error


async def test_nothing_ticks_on_when_calls_have_ended(serving):
    with anyio.fail_after(BOUND_S):
        async with Client(serving()) as client:
            await client.call_tool(QUERY, ARGUMENTS[QUERY])
            await client.call_tool(QUERY, {})
            await client.list_tools()
            ticking = [task for task in asyncio.all_tasks() if "_tick" in repr(task.get_coro())]
    assert ticking == []


async def test_a_server_that_has_been_run_keeps_no_connection(serving, knowledge):
    server = serving()  # held, so that nothing is closed by being forgotten
    with anyio.fail_after(BOUND_S):
        async with Client(server) as client:
            await client.call_tool(QUERY, ARGUMENTS[QUERY])
        await knowledge.left.wait()


async def test_calls_run_side_by_side(serving, knowledge):
    knowledge.silent = True
    with anyio.fail_after(BOUND_S):
        async with Client(serving()) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, QUERY, ARGUMENTS[QUERY])
            await knowledge.asked.wait()
            knowledge.silent = False
            assert not (await client.call_tool("dsh_lightrag_status")).is_error
            tasks.cancel_scope.cancel()


async def test_over_stdio_progress_and_cancellation_work_too(start, knowledge):
    knowledge.silent = True
    process = await start()
    await process.handshake()
    call = {"name": QUERY, "arguments": ARGUMENTS[QUERY]}
    await process.send("tools/call", call, id=7)
    with anyio.fail_after(BOUND_S):
        await knowledge.asked.wait()
        await process.send("notifications/cancelled", {"requestId": 7})
        await knowledge.left.wait()
    knowledge.silent = False
    assert (await process.ask("ping", ident=8))["result"] == {}
    status, _, err = await process.end()
    assert status == 0
    assert '"outcome": "cancelled"' in err


async def test_closing_stdin_during_a_call_ends_the_process(start, knowledge):
    knowledge.silent = True
    process = await start()
    await process.handshake()
    await process.send("tools/call", {"name": QUERY, "arguments": ARGUMENTS[QUERY]}, id=7)
    with anyio.fail_after(BOUND_S):
        await knowledge.asked.wait()
        status, _, err = await process.end()
        await knowledge.left.wait()
    assert status == 0
    assert "Traceback" not in err
