"""How a command ends, whatever ends it: pipes, signals, encodings, terminals, bugs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from dsh_lightrag import __version__
from dsh_lightrag.cli import app as app_module

from .conftest import KEY, WAIT_S, ran, spawned

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of POSIX")


def test_the_version_is_told(run):
    assert run("--version").stdout == f"{__version__}\n"


def test_without_a_command_there_is_help_and_no_success(run):
    result = run()
    assert result.exit_code == 2
    assert "Usage: " in result.output


@posix
def test_a_closed_pipe_is_quiet(server):
    server.held.clear()
    with spawned("documents") as process:
        assert server.asked.wait(WAIT_S)
        process.stdout.close()
        server.held.set()
        err = process.stderr.read()
        assert process.wait(WAIT_S) == 141
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


@posix
@pytest.mark.parametrize(
    "command", [["query", "Who?"], ["call", "dsh_lightrag_status"], ["doctor"]]
)
def test_an_interrupt_ends_at_once_and_quietly(server, command):
    server.held.clear()
    with spawned(*command, env={"LIGHTRAG_API_KEY": KEY}) as process:
        assert server.asked.wait(WAIT_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert out == b"" or command == ["doctor"]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_every_encoding_can_carry_every_answer(server, encoding):
    answer = "Skłodowska 居里 😀"
    server.replies["/query"] = (200, {"response": answer, "references": []})
    env = {"PYTHONIOENCODING": encoding}
    status, out, _ = ran("query", "Who?", env=env)
    assert status == 0
    assert answer.encode(encoding, "backslashreplace") in out
    status, out, _ = ran("query", "Who?", "--json", env=env)
    assert json.loads(out.decode(encoding))["result"]["answer"] == answer


def test_a_pipe_gets_no_colour_and_whole_lines(server):
    long = "word " * 400
    server.replies["/query"] = (200, {"response": long, "references": []})
    _, out, _ = ran("query", "Who?")
    assert long.strip().encode() in out
    assert b"\x1b" not in out


@posix
@pytest.mark.usefixtures("server")
def test_a_spinner_turns_on_stderr_alone_and_the_log_keeps_quiet_there():
    shown, out, status = on_a_terminal("documents", "--json", stream="stderr")
    assert status == 0
    assert json.loads(out)["ok"] is True
    assert "List documents" in shown
    assert "tool_call" not in shown


@posix
@pytest.mark.parametrize("columns", [20, 200])
@pytest.mark.usefixtures("server")
def test_a_terminal_of_any_width_is_kept_to(columns):
    shown, _, status = on_a_terminal("documents", env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    assert status == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()  # bold is no colour
    assert max(map(len, lines)) <= columns
    assert ("doc-1" in shown) == (columns == 200)


@posix
@pytest.mark.parametrize("no_color", ["", "1"])
@pytest.mark.usefixtures("server")
def test_a_terminal_gets_colour_unless_it_wants_none(no_color):
    shown, _, _ = on_a_terminal("documents", env={"NO_COLOR": no_color})
    assert ("\x1b[32m" in shown) is not bool(no_color)


def on_a_terminal(*arguments, stream="stdout", env=None):
    """Run with one stream on a terminal; return what it shows, the other stream, the status."""
    import pty  # noqa: PLC0415 - POSIX only

    ours, theirs = pty.openpty()
    shown = b""
    with spawned(*arguments, env={"TERM": "xterm", **(env or {})}, **{stream: theirs}) as process:
        os.close(theirs)
        while chunk := _read(ours):
            shown += chunk
        out, err = process.communicate(timeout=WAIT_S)
    os.close(ours)
    return shown.decode(), err if stream == "stdout" else out, process.returncode


def _read(terminal):
    """Read what a terminal shows; Linux says with an error that its last writer is gone."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_bug_is_told_by_place_and_never_by_its_text(capsys):
    def broken():
        secret = KEY
        raise RuntimeError(secret)

    with pytest.raises(app_module.typer.Exit) as ending:
        app_module.ended(broken)()
    assert ending.value.exit_code == 1
    err = capsys.readouterr().err
    assert "RuntimeError" in err
    assert "broken" in err
    assert KEY not in err


def test_the_module_runs_as_the_command_does():
    status, out, err = ran("tools", "--json")
    assert status == 0
    assert len(json.loads(out)["tools"]) == 3
    assert err == b""


def test_help_loads_no_http_client():
    code = (
        "import sys\nfrom dsh_lightrag.cli.app import app\n"
        "app(['tools', '--json'], standalone_mode=False)\n"
        "assert not {'httpx', 'lightrag', 'ruamel.yaml'} & set(sys.modules)"
    )
    status = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=False, timeout=WAIT_S, stdout=subprocess.DEVNULL
    )
    assert status.returncode == 0
