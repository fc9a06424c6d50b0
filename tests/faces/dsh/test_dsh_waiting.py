"""Calls that end early, and processes that do: nothing hangs, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from faces.server import WAIT_S

from .conftest import BOUND_S, has_ended
from .scripted_model import Call, ScriptedModel
from .test_dsh_tools import PREFIX, QUESTION, plugin


def query(mode="bare"):
    return Call(f"{PREFIX[mode]}dsh_lightrag_query", QUESTION)


@pytest.fixture
def answering_again(server):
    """A step that first sees the waiting request dropped, and then asks once more."""

    def make(mode="bare"):
        def step():
            # The process is still there: only the call can have closed this connection.
            assert server.left.wait(WAIT_S)
            server.hanging = False
            return [query(mode)]

        return step

    return make


@pytest.mark.parametrize("mode", PREFIX)
def test_the_harness_waits_longer_than_the_call(mode, home, patch, server):
    server.hang()
    with ScriptedModel([query(mode)]) as model:
        home.run(model, patch("--mode", mode, "--timeout-ms", "1000"))
    (said,) = model.said
    assert said.text.startswith("Error: dsh-lightrag (timeout): ")
    assert "1000 ms" in said.text


@pytest.mark.parametrize("mode", PREFIX)
def test_a_timeout_of_the_harness_cancels_the_call(mode, home, patch, server, answering_again):
    hasty = patch("--mode", mode).replace("toolCallTimeoutMs: 70000", "toolCallTimeoutMs: 1500")
    server.hang()
    with ScriptedModel([query(mode)], answering_again(mode)) as model:
        home.run(model, hasty)
    late, answer = model.said
    assert late.is_error
    assert "timed out" in late.text or "(timeout): no answer within 1500 ms" in late.text
    assert not answer.is_error


def test_a_call_that_is_aborted_is_cancelled(home, patch, server, answering_again):
    abort = plugin(
        home,
        # Aborts the first call, once the knowledge server has been asked: its file appears.
        """
        import { watch } from 'node:fs';
        export function apply(ctx, { folder }) {
          let first = true;
          ctx.on('tools/execute', (execution, next) => {
            if (first) {
              const stop = new AbortController();
              const watcher = watch(folder, () => {
                watcher.close();
                stop.abort(new Error('the test has changed its mind'));
              });
              execution.signal = stop.signal;
            }
            first = false;
            return next();
          });
        }
        """,
        folder=str(home.work),
    )
    server.hang()

    def touch():
        server.asked.wait(WAIT_S)
        (home.work / "asked").touch()

    toucher = threading.Thread(target=touch)
    with ScriptedModel([query()], answering_again()) as model:
        toucher.start()
        home.run(model, patch("--mode", "bare"), abort)
    toucher.join()
    aborted, answer = model.said
    assert aborted.is_error
    assert "the test has changed its mind" in aborted.text
    assert not answer.is_error
    assert len(home.lives) == 1


def test_after_a_crash_the_next_call_starts_the_process_anew(home, patch, server):
    printed = patch("--mode", "bare")
    (command,) = [line for line in printed.splitlines() if "command:" in line]
    start = home.root / "python"
    interpreter = command.partition(": ")[2]
    start.write_text(f'#!/bin/sh\necho no message\nexec {interpreter} "$@"\n', encoding="utf-8")
    start.chmod(0o755)
    server.hang()

    def crash():
        server.asked.wait(WAIT_S)
        kill(home.lives)

    def anew():
        server.hanging = False
        return [query(), query()]

    def without_a_python():
        assert len(home.lives) == 2  # the two that called at once share one
        start.rename(home.root / "elsewhere")
        kill(home.alive)
        return [query()]

    def with_it_again():
        (home.root / "elsewhere").rename(start)
        return [query()]

    crasher = threading.Thread(target=crash)
    with ScriptedModel([query()], anew, without_a_python, [query()], with_it_again) as model:
        crasher.start()
        home.run(model, printed.replace(command, f"        command: {json.dumps(str(start))}"))
    crasher.join()
    crashed, *two, gone, absent, back = model.said
    assert crashed.text.startswith("Error: dsh-lightrag: the Python process ended (SIGKILL).")
    assert [said.is_error for said in two] == [False, False]
    assert gone.is_error  # either way: the harness may not have seen its end yet
    assert "ENOENT" in absent.text
    assert not back.is_error


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        assert has_ended(pid, BOUND_S)


@pytest.mark.parametrize(
    ("mode", "number"),
    [("bare", signal.SIGTERM), ("bare", signal.SIGKILL), ("mcp", signal.SIGKILL)],
)
def test_no_process_outlives_the_harness(mode, number, home, patch, server):
    server.hang()
    with (
        ScriptedModel([query(mode)]) as model,
        home.started(model, patch("--mode", mode)) as process,
    ):
        assert server.asked.wait(WAIT_S)
        process.send_signal(number)
        process.communicate(timeout=BOUND_S)
        assert server.left.wait(WAIT_S)
        assert all(has_ended(pid, BOUND_S) for pid in home.lives)
