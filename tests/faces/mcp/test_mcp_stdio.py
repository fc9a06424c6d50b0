"""`dsh-lightrag mcp` as hosts start it: a child that speaks protocol on stdout and nothing else."""

from __future__ import annotations

import json
import signal
import sys

import anyio
import pytest
from mcp_support import ARGUMENTS, BOUND_S, KEY, MODERN_META

from dsh_lightrag import TOOLS

NAMES = [tool.name for tool in TOOLS]
# Prints whenever one of these is imported: from Python, on the descriptor, from a child, which
# also reads whatever stdin has.
NOISY = """
import importlib.abc, os, subprocess, sys
class Noise(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {"pydantic", "mcp", "structlog", "httpx", "dsh_lightrag.settings"}:
            print("noise", name)
            os.write(1, b"noise on the descriptor\\n")
            subprocess.run(["sh", "-c", "cat; echo noise of a child"])
sys.meta_path.insert(0, Noise())
"""


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_each_handshake_revision_is_spoken(start, revision):
    process = await start()
    assert (await process.handshake(revision))["protocolVersion"] == revision
    listed = await process.ask("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == NAMES[:3]
    called = await process.ask("tools/call", {"name": "dsh_lightrag_status", "arguments": {}})
    assert called["result"]["content"][0]["type"] == "text"


async def test_revision_2026_07_28_is_spoken_without_a_handshake(start):
    process = await start()
    found = await process.ask("server/discover", {"_meta": MODERN_META})
    assert "2026-07-28" in found["result"]["supportedVersions"]
    listed = await process.ask("tools/list", {"_meta": MODERN_META}, ident=2)
    assert [tool["name"] for tool in listed["result"]["tools"]] == NAMES[:3]
    call = {"name": "dsh_lightrag_status", "arguments": {}, "_meta": MODERN_META}
    called = await process.ask("tools/call", call, ident=3)
    assert called["result"]["structuredContent"]["status"] == "healthy"


async def test_stdout_carries_protocol_alone_even_when_libraries_print(
    start, environment, tmp_path
):
    (tmp_path / "sitecustomize.py").write_text(NOISY, encoding="utf-8")
    process = await start(PYTHONPATH=f"{tmp_path}:{environment['PYTHONPATH']}")
    await process.handshake()
    await process.ask("tools/list")
    call = {"name": "dsh_lightrag_query", "arguments": ARGUMENTS["dsh_lightrag_query"]}
    called = await process.ask("tools/call", call, ident=2)
    assert not called["result"].get("isError")
    status, rest, err = await process.end()
    assert (status, rest) == (0, "")
    for noise in ("pydantic", "mcp", "structlog", "httpx", "dsh_lightrag.settings"):
        assert f"noise {noise}" in err, "the noise was not made, so this proves nothing"
    assert "noise of a child" in err
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in process.lines)


async def test_nothing_that_a_call_does_not_need_is_imported_before_it(start, tmp_path):
    spy = (
        "import atexit, sys\n"
        "names = ('typer', 'rich', 'httpx', 'structlog', 'ruamel', 'yaml')\n"
        "atexit.register(lambda: sys.stderr.write(\n"
        "    'loaded:' + ','.join(n for n in names if n in sys.modules)))\n"
    )
    (tmp_path / "sitecustomize.py").write_text(spy, encoding="utf-8")
    process = await start(PYTHONPATH=f"{tmp_path}:{_source()}")
    await process.handshake()
    await process.ask("tools/list")
    _, _, err = await process.end()
    assert err.endswith("loaded:")


def _source():
    from mcp_support import ROOT  # noqa: PLC0415 - one use

    return str(ROOT / "src")


async def test_neither_the_key_nor_what_is_asked_reaches_a_log_or_the_client(start):
    process = await start("--enable", "writes,evidence")
    await process.handshake()
    await process.ask("tools/list")
    question = {"question": "question-CANARY?", "mode": "nonsense-CANARY"}
    await process.ask("tools/call", {"name": NAMES[0], "arguments": question}, ident=2)
    insert = {"text": "text-CANARY", "source": "source-CANARY.txt"}
    await process.ask("tools/call", {"name": NAMES[4], "arguments": insert}, ident=3)
    process.child.stdin.write(b'{"jsonrpc": "2.0", "garbage-CANARY"\n')
    await process.send("tools/call", {"name": 5, "arguments": "CANARY"}, id=4)
    await process.ask("ping", ident=5)
    status, rest, err = await process.end()
    assert status == 0
    assert "CANARY" not in err
    assert KEY not in "".join(process.lines) + rest


async def test_a_line_that_is_no_json_does_not_end_the_server(start):
    process = await start()
    await process.handshake()
    process.child.stdin.write(b"not json\n[]\n\n{}\n")
    assert (await process.ask("ping", ident=2))["result"] == {}


async def test_a_client_that_stops_reading_ends_the_process_quietly(start):
    process = await start()
    await process.handshake()
    process.child._transport.get_pipe_transport(1).close()  # noqa: SLF001 - no public way
    await process.send("tools/list", id=2)
    await process.send("tools/list", id=3)
    with anyio.fail_after(BOUND_S):
        err = (await process.child.stderr.read()).decode()
        await process.child.wait()
    assert err == ""
    assert process.child.returncode == 141


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
async def test_a_signal_ends_the_process_at_once_and_quietly(start, number, status):
    process = await start()
    await process.handshake()
    process.child.send_signal(number)
    with anyio.fail_after(BOUND_S):
        err = (await process.child.stderr.read()).decode()
        await process.child.wait()
    assert "Traceback" not in err
    assert process.child.returncode == status


async def test_without_the_extra_the_error_names_it(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; sys.modules['mcp_types'] = None", encoding="utf-8"
    )
    process = await start(PYTHONPATH=f"{tmp_path}:{_source()}")
    status, out, err = await process.end()
    assert (status, out) == (2, "")
    assert "pip install 'dsh-lightrag[mcp]'" in err


async def test_the_installed_command_and_the_module_are_one(start):
    """`main()` reads sys.argv alike for both; the script is one line over it."""
    from dsh_lightrag import __main__  # noqa: PLC0415 - the subject of this test alone

    assert sys.modules["dsh_lightrag.__main__"] is __main__
    process = await start("--help")
    status, out, err = await process.end()
    assert (status, err) == (0, "")
    assert out.startswith("usage: dsh-lightrag mcp")
