from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dsh_lightrag
from dsh_lightrag import LightRagError, toolbox
from dsh_lightrag.blocking import BlockingToolbox

from .server import WAIT_S

QUESTION = {"question": "Who found polonium?"}
SRC = str(Path(dsh_lightrag.__file__).parents[1])


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "dsh-lightrag"]


def run_script(script, *arguments):
    """Run Python code in a process of its own, warnings as errors, and return its output."""
    return subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": SRC},
    )


def test_calls_without_a_loop_and_lists_as_the_catalog(settings):
    with BlockingToolbox(settings) as tools:
        assert tools.tools == toolbox(settings).tools
        outcome = tools.call("dsh_lightrag_query", QUESTION)
    assert outcome.structured["referenceCount"] == 1


async def test_calls_inside_a_running_loop(settings):
    with BlockingToolbox(settings) as tools:
        assert tools.call("dsh_lightrag_query", QUESTION).structured["referenceCount"] == 1


def test_raises_the_tools_own_error(settings):
    with BlockingToolbox(settings) as tools, pytest.raises(LightRagError) as caught:
        tools.call("dsh_lightrag_delete", {"documentId": "doc-1"})
    assert caught.value.code == "disabled"


def test_starts_no_thread_before_the_first_call(settings):
    with BlockingToolbox(settings) as tools:
        assert tools.tools
        assert not threads()


def test_serves_many_threads_on_one_of_its_own(server, settings):
    together = threading.Barrier(8)

    def ask(_):
        together.wait(WAIT_S)
        return tools.call("dsh_lightrag_query", QUESTION).structured["answer"]

    with BlockingToolbox(settings) as tools, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
        assert len(threads()) == 1
    assert answers == ["Marie and Pierre Curie found polonium [1]."] * 8
    assert len(server.requests) == 8


def test_reuses_its_connection_and_closes_it(server, settings):
    with BlockingToolbox(settings) as tools:
        tools.call("dsh_lightrag_query", QUESTION)
        tools.call("dsh_lightrag_query", QUESTION)
        assert server.connections == 1
        assert not server.idle_left.is_set()
    assert server.idle_left.wait(WAIT_S)
    assert not threads()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_the_caller_cancels_the_call(server, settings):
    server.hang()
    main = threading.main_thread().ident

    def interrupt():
        server.asked.wait(WAIT_S)
        signal.pthread_kill(main, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    with BlockingToolbox(settings) as tools:
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            tools.call("dsh_lightrag_query", QUESTION)
        assert server.left.wait(WAIT_S)
        server.hanging = False
        assert tools.call("dsh_lightrag_query", QUESTION).text
    helper.join(WAIT_S)


def test_closing_ends_the_calls_of_other_threads_and_is_final(server, settings):
    server.hang()
    tools = BlockingToolbox(settings)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tools.call, "dsh_lightrag_query", QUESTION)
        assert server.asked.wait(WAIT_S)
        tools.close()
        with pytest.raises(RuntimeError, match="closed while this call was running"):
            waiting.result(WAIT_S)
    assert server.left.wait(WAIT_S)
    tools.close()
    with pytest.raises(RuntimeError, match="The toolbox is closed"):
        tools.call("dsh_lightrag_status")


def test_a_toolbox_that_is_dropped_closes_itself(server, settings):
    tools = BlockingToolbox(settings)
    tools.call("dsh_lightrag_query", QUESTION)
    del tools
    gc.collect()
    assert server.idle_left.wait(WAIT_S)
    assert not threads()


def test_being_stopped_on_its_own_thread_does_not_wait_for_itself(server, settings, caplog):
    """As happens when the collector that finds a dropped toolbox runs there."""
    tools = BlockingToolbox(settings)
    tools.call("dsh_lightrag_query", QUESTION)
    inner = tools._loop  # noqa: SLF001 - no caller can choose where the collector runs
    (thread,) = threads()
    inner._loop.call_soon_threadsafe(inner.stop)  # noqa: SLF001 - as above
    thread.join(WAIT_S)
    assert not threads()
    assert server.idle_left.wait(WAIT_S)
    assert caplog.records == []  # a callback that raises is only logged


async def test_leaves_the_connections_of_other_loops_open(server, settings):
    async with toolbox(settings) as dispatcher:
        await dispatcher.call("dsh_lightrag_query", QUESTION)
        with BlockingToolbox(dispatcher) as tools:
            tools.call("dsh_lightrag_query", QUESTION)
        assert await asyncio.to_thread(server.idle_left.wait, WAIT_S)
        await dispatcher.call("dsh_lightrag_query", QUESTION)
    assert server.connections == 2


def test_threads_that_share_a_dispatcher_use_one_transport(settings, monkeypatch):
    built = []
    together = threading.Barrier(2)
    original = dsh_lightrag.transport.Transport.__init__

    def slow(self, *arguments):
        built.append(self)
        threading.Event().wait(0.05)  # long enough for the other thread to come by
        original(self, *arguments)

    monkeypatch.setattr(dsh_lightrag.transport.Transport, "__init__", slow)
    dispatcher = toolbox(settings)

    def ask(_):
        together.wait(WAIT_S)
        return asyncio.run(_ask_and_close(dispatcher))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(ask, range(2)))
    kept = vars(dispatcher)["_transport"]
    assert kept in built
    assert not any(vars(transport)["_pools"] for transport in built)  # no pool is left of another


async def _ask_and_close(dispatcher):
    async with dispatcher:
        return (await dispatcher.call("dsh_lightrag_query", QUESTION)).text


ENDS_WITHOUT_CLOSING = """
import sys
from dsh_lightrag import LightRagSettings
from dsh_lightrag.blocking import BlockingToolbox
tools = BlockingToolbox(LightRagSettings(endpoint=sys.argv[1]))
print(tools.call("dsh_lightrag_query", {"question": "Who found polonium?"}).structured["answer"])
"""


def test_a_process_that_ends_without_closing_ends_clean(server):
    done = run_script(ENDS_WITHOUT_CLOSING, server.url)
    assert done.returncode == 0
    assert done.stdout == "Marie and Pierre Curie found polonium [1].\n"
    assert [line for line in done.stderr.splitlines() if '"event": "tool_call"' not in line] == []
    assert server.idle_left.wait(WAIT_S)


FORKS = """
import gc, os, sys
from dsh_lightrag import LightRagSettings
from dsh_lightrag.blocking import BlockingToolbox
def ask():
    outcome = tools.call("dsh_lightrag_query", {"question": "Who found polonium?"})
    return outcome.structured["answer"]
tools = BlockingToolbox(LightRagSettings(endpoint=sys.argv[1]))
ask()
inherited = tools._finalizer
child = os.fork()
if child == 0:
    print("child:", ask(), flush=True)
    print("will close the parent's loop:", inherited.alive, flush=True)
    gc.collect()
    sys.exit(0)
status = os.waitpid(child, 0)[1]
print("status:", status)
print("parent:", ask())
"""


def test_a_forked_child_calls_on_a_thread_and_connection_of_its_own(server):
    done = run_script(FORKS, server.url)
    answer = "Marie and Pierre Curie found polonium [1]."
    assert done.stdout.splitlines() == [
        f"child: {answer}",
        "will close the parent's loop: False",
        "status: 0",
        f"parent: {answer}",
    ]
    assert [line for line in done.stderr.splitlines() if '"event": "tool_call"' not in line] == []
    assert server.connections == 2
