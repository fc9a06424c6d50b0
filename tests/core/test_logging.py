"""Section 6 of the contract: one record per call, on stderr, that tells nothing of its content."""

from __future__ import annotations

import asyncio
import json
import logging

import anyio
import httpx
import pytest
import structlog

from dsh_lightrag import Code, LightRagError, LightRagSettings, UnknownToolError, toolbox
from dsh_lightrag.dispatch import Access, Args, Dispatcher, Result, Tool
from dsh_lightrag.logs import recorded
from dsh_lightrag.text import TextForm

from .support import BEGUN, KEY, PREFIX, call_over, reply

# One canary per place from which something could leak.
CANARIES = {
    "question": "canary-question-zq1",
    "answer": "canary-answer-zq2",
    "text": "canary-text-zq3",
    "source": "canary-source-zq4",
    "id": "canary-id-zq5",
    "detail": "canary-detail-zq6",
    "key": KEY,
}
CALLS = {
    "query": {"question": CANARIES["question"], "withContent": True},
    "documents": {},
    "status": {},
    "query_data": {"query": CANARIES["question"], "user_prompt": CANARIES["text"]},
    "insert": {"text": CANARIES["text"], "source": CANARIES["source"]},
    "scan": {},
    "delete": {"documentId": CANARIES["id"]},
}
BODY = {
    "response": CANARIES["answer"],
    "references": [
        {
            "reference_id": CANARIES["id"],
            "file_path": CANARIES["source"],
            "content": [CANARIES["text"]],
        }
    ],
    "documents": [
        {
            "id": CANARIES["id"],
            "status": "failed",
            "file_path": CANARIES["source"],
            "error_msg": CANARIES["detail"],
        }
    ],
    "status": "healthy",
    "status_counts": {"all": 1},
    "message": CANARIES["detail"],
    "track_id": CANARIES["id"],
    "data": {"chunks": [{"content": CANARIES["text"], "chunk_id": CANARIES["id"]}]},
}


@pytest.fixture
def records(capsys, caplog):
    """Return the records written since the last look; nothing may be on stdout or in logging."""
    caplog.set_level(logging.DEBUG)

    def look():
        printed = capsys.readouterr()
        assert printed.out == ""
        everything = printed.err + caplog.text
        for place, canary in CANARIES.items():
            assert canary not in everything, place
        return [json.loads(line) for line in printed.err.splitlines()]

    return look


@pytest.mark.parametrize("tool", CALLS)
async def test_a_call_leaves_one_record_of_sizes_and_counts(tool, records):
    body = BODY | {"status": BEGUN.get(tool, BODY["status"])}
    await call_over(lambda _: reply(body), tool, CALLS[tool])
    (record,) = records()
    assert record["event"] == "tool_call"
    assert record["tool"] == PREFIX + tool
    assert record["outcome"] == "ok"
    assert record["duration_ms"] >= 0
    assert record["text_chars"] > 0


@pytest.mark.parametrize("tool", CALLS)
async def test_a_failed_call_leaves_one_record_with_its_code(tool, records):
    body = {"detail": f"{CANARIES['detail']} {CANARIES['question']} {KEY}"}
    with pytest.raises(LightRagError):
        await call_over(lambda _: reply(body, 401), tool, CALLS[tool])
    (record,) = records()
    assert (record["tool"], record["outcome"]) == (PREFIX + tool, "unauthorized")
    assert record["status"] == 401


async def test_refused_arguments_and_the_gate_are_recorded_too(records):
    async with toolbox(LightRagSettings(apiKey=KEY)) as tools:
        with pytest.raises(LightRagError):
            await tools.call("dsh_lightrag_query", {CANARIES["question"]: CANARIES["text"]})
        with pytest.raises(LightRagError):
            await tools.call("dsh_lightrag_insert", CALLS["insert"])
    assert [record["outcome"] for record in records()] == ["invalid-argument", "disabled"]


async def test_a_broken_wire_is_recorded_without_what_its_exception_said(records):
    def handler(_request):
        raise httpx.ConnectError(f"cannot reach {CANARIES['detail']}")

    with pytest.raises(LightRagError):
        await call_over(handler, "query", CALLS["query"])
    assert [record["outcome"] for record in records()] == ["unreachable"]


async def test_a_cancelled_call_is_recorded_as_cancelled(records):
    asked = anyio.Event()

    async def handler(_request):
        asked.set()
        await anyio.sleep_forever()

    task = asyncio.ensure_future(call_over(handler, "query", CALLS["query"]))
    with anyio.fail_after(5):
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [record["outcome"] for record in records()] == ["cancelled"]


async def test_an_unknown_tool_is_no_call(records):
    async with toolbox(LightRagSettings()) as tools:
        with pytest.raises(UnknownToolError):
            await tools.call(CANARIES["question"])
    assert records() == []


# --- bugs -------------------------------------------------------------------------------------


class NoArgs(Args):
    """None."""


class NoResult(Result):
    """None."""


async def buggy(_args: NoArgs, _deps: object) -> NoResult:
    local_variable = CANARIES["text"]
    raise RuntimeError(f"a bug that tells {local_variable}")


BUGGY = Tool(
    name="buggy",
    title="Buggy",
    summary="Fails.",
    access=Access.READ,
    args=NoArgs,
    result=NoResult,
    run=buggy,
    show=lambda _: TextForm("done"),
)


async def test_a_bug_rises_and_is_recorded_by_frames_without_locals_or_message(records):
    async with Dispatcher(LightRagSettings(), (BUGGY,)) as tools:
        with pytest.raises(RuntimeError, match="a bug that tells"):
            await tools.call("buggy")
    (record,) = records()
    assert (record["outcome"], record["error"]) == ("bug", "RuntimeError")
    assert any("buggy" in frame for frame in record["frames"])


async def test_a_result_that_the_tool_cannot_show_is_a_bug_too(records):
    def show(_result):
        raise ZeroDivisionError(CANARIES["answer"])

    async def run(_args, _deps):
        return NoResult()

    tool = Tool("t", "t", "t", Access.READ, NoArgs, NoResult, run, show)
    async with Dispatcher(LightRagSettings(), (tool,)) as tools:
        with pytest.raises(ZeroDivisionError):
            await tools.call("t")
    assert [record["outcome"] for record in records()] == ["bug"]


@pytest.mark.parametrize(("failure", "events"), [("info", ["call"]), (None, [])])
def test_who_wants_no_failure_told_gets_none(records, failure, events):
    with pytest.raises(LightRagError), recorded("call", failure=failure):
        raise LightRagError(Code.TIMEOUT, CANARIES["text"])
    assert [record["event"] for record in records()] == events


def test_a_bug_is_told_even_to_who_wants_no_failure_told(records):
    with pytest.raises(RuntimeError), recorded("call", failure=None):
        raise RuntimeError(CANARIES["text"])
    assert [record["outcome"] for record in records()] == ["bug"]


# --- whose loggers ----------------------------------------------------------------------------


async def test_the_http_libraries_are_held_at_warning(records):
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    await call_over(lambda _: reply(BODY), "query", CALLS["query"])
    for name in ("httpx", "httpcore", "httpcore.http11", "httpcore.connection"):
        assert logging.getLogger(name).getEffectiveLevel() >= logging.WARNING
    records()


async def test_a_hosts_structlog_setup_is_left_alone():
    seen = []

    def capture(_logger, _method, event):
        seen.append(event)
        raise structlog.DropEvent

    structlog.configure(processors=[capture])
    try:
        await call_over(lambda _: reply(BODY), "query", CALLS["query"])
        assert seen == []
        assert structlog.get_config()["processors"] == [capture]
    finally:
        structlog.reset_defaults()


def test_the_key_is_not_in_the_repr_of_a_toolbox():
    assert KEY not in repr(toolbox(LightRagSettings(apiKey=KEY)))
