"""The command line of `dsh-lightrag mcp`: what is served, and what is refused at the start."""

from __future__ import annotations

import json
import re
import socket
import sys

import anyio
import httpx2
import pytest
from mcp_support import ARGUMENTS, BOUND_S, KEY

from dsh_lightrag import TOOLS, LightRagSettings
from dsh_lightrag.faces.mcp import command
from dsh_lightrag.flags import FLAGS, SWITCHES

NAMES = [tool.name for tool in TOOLS]
WRITES = NAMES[4:]


def offered(*arguments):
    """Return the offer that a command line makes, without serving it."""
    return command._offer_of(command.parser().parse_args(arguments))  # noqa: SLF001 - no socket


def names(*arguments):
    return [tool.name for tool in offered(*arguments).tools]


async def listed(process):
    await process.handshake()
    return [tool["name"] for tool in (await process.ask("tools/list"))["result"]["tools"]]


def test_three_tools_are_the_default_and_enable_adds_in_catalog_order():
    assert names() == NAMES[:3]
    assert names("--enable", "evidence") == NAMES[:4]
    assert names("--enable", "writes,evidence") == NAMES
    assert names("--enable", "writes", "--enable", "evidence") == NAMES
    assert names("--no-enabled", "--enable", "writes") == []


def test_read_only_wins_over_flags_and_variables(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "true")
    assert names() == [*NAMES[:3], *WRITES]
    assert names("--disable", "writes") == NAMES[:3]
    assert names("--read-only") == NAMES[:3]
    assert names("--enable", "writes", "--read-only") == NAMES[:3]
    assert names("--read-only", "--enable", "writes,evidence") == NAMES[:4]


async def test_read_only_refuses_a_write_that_is_called_all_the_same(start, knowledge):
    process = await start("--enable", "writes", "--read-only", LIGHTRAG_WRITES__ENABLED="1")
    assert await listed(process) == NAMES[:3]
    for name in WRITES:
        called = await process.ask("tools/call", {"name": name, "arguments": ARGUMENTS[name]})
        assert called["result"]["_meta"]["dsh-lightrag/error"]["code"] == "disabled"
    assert knowledge.paths == []


def test_every_setting_but_the_key_has_a_flag_that_sets_it():
    leaves = {".".join(flag.path) for flag in FLAGS}
    leaves |= {f"{name}.enabled" for name in SWITCHES} | {"api_key"}
    model = LightRagSettings().model_dump()
    assert leaves == {
        f"{name}.{inner}" if isinstance(value, dict) else name
        for name, value in model.items()
        for inner in (value if isinstance(value, dict) else [None])
    }
    given = {
        "--endpoint": "http://127.0.0.1:1",
        "--timeout-ms": "2000",
        "--query-mode": "naive",
        "--query-top-k": "7",
        "--query-max-answer-bytes": "2000",
        "--query-max-content-bytes": "2001",
        "--documents-max-listed": "8",
        "--output-max-text-bytes": "5000",
        "--writes-max-text-bytes": "3000",
        "--workspace": "w",
        "--base-path": "/p",
    }
    words = [word for pair in given.items() for word in pair]
    settings = offered(*words, "--use-proxy").dispatcher.settings
    for flag in FLAGS:
        if flag.name in given:
            value = settings
            for name in flag.path:
                value = getattr(value, name)
            assert str(value) == given[flag.name], flag.name
    assert settings.use_proxy
    assert {flag.name for flag in FLAGS} - set(given) == {"--enabled", "--use-proxy", "--ca-file"}


def test_flags_win_over_variables(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_QUERY__TOP_K", "3")
    monkeypatch.setenv("LIGHTRAG_USE_PROXY", "true")
    settings = offered("--query-top-k", "4", "--no-use-proxy").dispatcher.settings
    assert (settings.query.top_k, settings.use_proxy) == (4, False)


def test_the_key_is_read_from_the_variable_that_is_named(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", "another")
    monkeypatch.setenv("MY_KEY", KEY)
    settings = offered("--api-key-env", "MY_KEY").dispatcher.settings
    assert settings.api_key.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--endpoint", "ftp://x"], "endpoint"),
        (["--enable", "everything"], "--enable"),
        (["--enable", "writes", "--disable", "writes"], "writes is both"),
        (["--api-key-env", "NOT_SET"], "NOT_SET"),
        (["--transport", "http", "--token-env", "NOT_SET"], "NOT_SET"),
        (["--transport", "http", "--host", "::"], "bearer token"),
        (
            ["--transport", "http", "--host", "192.0.2.1", "--token-env", "MY_TOKEN"],
            "dsh-lightrag: --host:",
        ),
        (
            ["--transport", "http", "--host", "\udcff", "--token-env", "MY_TOKEN"],
            "dsh-lightrag: --host:",
        ),
        (
            ["--transport", "http", "--host", "a..b", "--token-env", "MY_TOKEN"],
            "dsh-lightrag: --host:",
        ),
        (
            ["--transport", "http", "--host", f"{'a' * 70}.b", "--token-env", "MY_TOKEN"],
            "dsh-lightrag: --host:",
        ),
        (["--transport", "http", "--port", "70000"], "--port: must be a whole number from 0"),
        (["--transport", "http", "--port", "-1"], "--port: must be a whole number from 0"),
        (["--transport", "http", "--port", "ten"], "--port: must be a whole number from 0"),
        (["--port", "9000"], "--transport http"),
        (["--token-env", "MY_TOKEN"], "--transport http"),
        (["--json-response"], "--transport http"),
        (["--timeout-ms", "soon"], "--timeout-ms"),
        (["--query-mode", "guess"], "--query-mode"),
        (["--profile", "profile.yml"], "--preset"),
        (["--transp", "http"], "unrecognized"),
        (["--no-such-flag"], "unrecognized"),
    ],
)
async def test_what_cannot_work_ends_with_status_2_and_says_which_flag(start, arguments, told):
    process = await start(*arguments, MY_TOKEN="token-CANARY")
    status, out, err = await process.end()
    assert (status, out) == (2, "")
    assert told in err
    assert "Traceback" not in err
    assert KEY not in err
    assert "CANARY" not in err


async def test_help_goes_to_the_real_stdout_and_tells_every_flag(start):
    process = await start("--help")
    status, out, err = await process.end()
    assert (status, err) == (0, "")
    assert all(flag.name in out for flag in FLAGS)


async def test_http_is_served_until_a_signal_and_nothing_is_printed(start):
    process = await start("--transport", "http", "--port", "0", "--token-env", "T", T="tok-CANARY")
    with anyio.fail_after(BOUND_S):
        record = json.loads(await process.child.stderr.readline())
    assert record["event"] == "mcp_serving"
    assert record["tools"] == NAMES[:3]
    assert (record["key_set"], record["token_set"]) == (True, True)
    async with httpx2.AsyncClient(timeout=BOUND_S) as http:
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "0"},
            },
        }
        headers = {"accept": "application/json, text/event-stream"}
        refused = await http.post(record["url"], json=hello, headers=headers)
        headers["authorization"] = "Bearer tok-CANARY"
        welcome = await http.post(record["url"], json=hello, headers=headers)
        foreign = await http.post(record["url"], json=hello, headers={**headers, "host": "e.vil"})
    assert [r.status_code for r in (refused, welcome, foreign)] == [401, 200, 421]
    process.child.terminate()
    _, out, err = await process.end()
    assert out == ""
    assert "CANARY" not in err
    assert "e.vil" not in err
    records = [json.loads(line) for line in err.splitlines()]
    assert {record["event"] for record in records} == {"library_log"}


async def test_a_port_that_is_taken_is_said(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = await start("--transport", "http", "--port", str(taken.getsockname()[1]))
        status, _, err = await process.end()
    assert status == 2
    assert "--port: cannot be listened on: Address already in use" in err


BY_TYPER = [sys.executable, "-c", "from dsh_lightrag.cli import run; run()"]


async def test_the_list_of_commands_has_it_and_leads_to_it_too(start):
    process = await start("--help", command=BY_TYPER)
    status, out, _ = await process.end()
    assert status == 0
    assert re.search(r"^ +mcp +Serve the tools", out, re.MULTILINE)
    process = await start("mcp", "--help", command=BY_TYPER)
    status, out, _ = await process.end()
    assert status == 0
    assert "--token-env" in out
    process = await start("mcp", "--enable", "evidence", command=BY_TYPER)
    assert await listed(process) == NAMES[:4]
    process = await start("mcp", "--port", "9000", command=BY_TYPER)
    status, _, err = await process.end()
    assert status == 2
    assert "--transport http" in err
