"""Streams that are closed, full, endless or never read, and interrupts while it starts."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys

import anyio
import pytest
from mcp_support import ARGUMENTS, BOUND_S, ROOT

COMMAND = f"{shlex.quote(sys.executable)} -m dsh_lightrag mcp"
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
STATUS = {"name": "dsh_lightrag_status", "arguments": ARGUMENTS["dsh_lightrag_status"]}
# Sends SIGINT when one of these is imported, or when the descriptors are about to be moved.
INTERRUPTING = """
import os, signal, sys
def interrupt(event, args):
    if (event, args[:1]) in {("import", (WHEN,)), ("open", (WHEN,))}:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
"""


# No knowledge server takes part.
BARE = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}


@pytest.fixture
def shell():
    """Run a line of shell with COMMAND in it; return the status, stdout and stderr."""

    def run(line, given=b""):
        done = subprocess.run(  # noqa: S603 - our own interpreter
            ["/bin/sh", "-c", line.replace("COMMAND", COMMAND)],
            input=given,
            capture_output=True,
            env=BARE,
            timeout=BOUND_S,
            check=False,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        ("COMMAND </dev/zero", 1, "a line on stdin is longer than 4194304 bytes"),
        # Far less than such a line without a bound would take, and enough to start.
        ("ulimit -v 900000; COMMAND </dev/zero", 1, "a line on stdin is longer than"),
        ("COMMAND <&-", 2, "stdin: is closed"),
        ("COMMAND </dev/null >&-", 2, "stdout: is closed"),
        ("COMMAND 0>/dev/null", 1, "stdin cannot be read"),
        ("COMMAND >/dev/full", 1, "stdout cannot be written: No space left on device"),
        ("COMMAND --help >&-", 2, "stdout: is closed"),
        ("COMMAND --help >/dev/full", 1, "stdout cannot be written: No space left on device"),
    ],
)
def test_a_wire_that_fails_is_one_line_and_a_status(shell, line, status, told):
    code, out, err = shell(line, f"{PING}\n".encode())
    assert (code, out, len(err.splitlines())) == (status, "", 1), err
    assert err.startswith("dsh-lightrag")
    assert told in err


@pytest.mark.parametrize("line", ["COMMAND --help <&-", "COMMAND --help 2>&-"])
def test_help_needs_stdout_alone(shell, line):
    code, out, err = shell(line)
    assert (code, err) == (0, "")
    assert out.startswith("usage: dsh-lightrag mcp")


@pytest.mark.parametrize("closed", ["<&- >&-", "2>&-", "2>/dev/full"])
def test_usage_errors_need_no_stream(shell, closed):
    assert shell(f"COMMAND --no-such-flag {closed}")[0] == 2
    assert shell(f"COMMAND --endpoint nowhere {closed}")[0] == 2


def test_help_into_a_pipe_that_nobody_reads_is_quiet():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*shlex.split(COMMAND), "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=BARE,
        timeout=BOUND_S,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", ["", "2>&-", "2>/dev/full"])
def test_what_was_asked_before_stdin_ended_is_answered(shell, closed):
    code, out, _ = shell(f"COMMAND {closed}", f"{PING}\n".encode())
    assert (code, json.loads(out)) == (0, {"jsonrpc": "2.0", "id": 1, "result": {}})


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "when",
    [
        "dsh_lightrag.faces.mcp.wire",
        os.devnull,
        "dsh_lightrag.faces.mcp.command",
        "datetime",  # imported by an extension module, which tells a fault of its own
        "mcp.server.lowlevel",
    ],
)
async def test_an_interrupt_at_any_point_of_the_start_is_quiet(start, environment, tmp_path, when):
    code = INTERRUPTING.replace("WHEN", repr(when))
    (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
    process = await start(PYTHONPATH=f"{tmp_path}:{environment['PYTHONPATH']}")
    with anyio.fail_after(BOUND_S):
        out, err = await process.child.communicate()
    assert (process.child.returncode, out, err) == (130, b"", b"")


async def test_calls_are_answered_when_the_host_has_closed_its_end_of_stderr(start):
    reading, writing = os.pipe()
    process = await start(stderr=writing)
    os.close(reading)
    os.close(writing)
    await process.handshake()
    for ident in range(1, 4):
        called = await process.ask("tools/call", STATUS, ident=ident)
        assert called["result"]["structuredContent"]["status"] == "healthy"
    bad = await process.ask("tools/call", {**STATUS, "arguments": {"x": 1}}, ident=5)
    assert bad["result"]["_meta"]["dsh-lightrag/error"]["code"] == "invalid-argument"
    assert (await process.end())[0] == 0


async def test_calls_are_answered_when_the_host_never_reads_stderr(start):
    reading, writing = os.pipe()
    process = await start(stderr=writing)
    await process.handshake()
    for ident in range(1, 601):
        called = await process.ask("tools/call", STATUS, ident=ident)
        assert called["result"]["structuredContent"]["status"] == "healthy"
    # How much a pipe holds depends on how many are open; whether it takes more does not.
    _, writable, _ = select.select([], [writing], [], 0)
    assert not writable, "the pipe was not filled, so this proves nothing"
    assert (await process.end())[0] == 0
    os.close(reading)
    os.close(writing)
