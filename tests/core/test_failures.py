"""Section 4 of the contract: every failure has its code, by tables that are complete."""

from __future__ import annotations

import inspect
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from dsh_lightrag import Code, LightRagError
from dsh_lightrag.errors import HINTS
from dsh_lightrag.transport import EXCEPTION_CODES, code_of_exception
from dsh_lightrag.wire import Route

from .support import ENDPOINT, KEY, body_of, call_over, captured, failure, reply, serve

STATUSES = {
    400: "invalid-argument",
    401: "unauthorized",
    403: "unauthorized",
    404: "not-found",
    405: "not-found",
    409: "conflict",
    413: "too-large",
    422: "invalid-argument",
    429: "rate-limited",
}
WRITES = ("insert", "scan", "delete")


async def error_of(handler, tool="query", **row):
    with pytest.raises(LightRagError) as caught:
        await call_over(handler, tool, **row)
    return caught.value


# --- the set ----------------------------------------------------------------------------------


def test_the_codes_are_this_closed_set_and_each_has_a_hint():
    assert [code.value for code in Code] == [
        "invalid-argument",
        "unauthorized",
        "not-found",
        "conflict",
        "busy",
        "too-large",
        "rate-limited",
        "server-error",
        "timeout",
        "unreachable",
        "bad-response",
        "disabled",
        "forbidden",
        "over-budget",
    ]
    assert set(HINTS) == set(Code)
    assert all(hint.endswith(".") for hint in HINTS.values())


@pytest.mark.parametrize("code", Code)
def test_the_text_is_plugin_code_message_and_one_hint(code):
    error = LightRagError(code, "It failed.", status=500, retry_after_s=3)
    assert str(error) == f"dsh-lightrag ({code.value}): It failed. Hint: {HINTS[code]}"
    assert error.fields() == {
        "code": code.value,
        "message": "It failed.",
        "hint": HINTS[code],
        "status": 500,
        "retryAfterS": 3,
    }
    assert set(LightRagError(code, "It failed.").fields()) == {"code", "message", "hint"}
    assert json.dumps(error.fields())


# --- statuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["query", "documents", "query_data", *WRITES])
async def test_every_status_has_its_code(tool):
    for status in range(300, 600):
        error = await error_of(lambda _, status=status: reply(b"", status), tool)
        expected = "bad-response" if status < 400 else STATUSES.get(status, "server-error")
        assert (error.code, error.status) == (expected, status)
        assert str(status) in error.message


@pytest.mark.parametrize(
    ("body", "write_code"),
    [
        (b'{"detail":"recovery fence"}', "busy"),
        (b"", "server-error"),
        (b"<html>503</html>", "server-error"),
        (b"{}", "server-error"),
    ],
)
async def test_503_with_a_json_detail_means_busy_on_writes_only(body, write_code):
    for tool in WRITES:
        assert (await error_of(lambda _: reply(body, 503), tool)).code == write_code
    for tool in ("query", "documents", "query_data"):
        assert (await error_of(lambda _: reply(body, 503), tool)).code == "server-error"


@pytest.mark.parametrize(
    ("tool", "capture", "code"),
    [
        ("query", "auth_key_wrongkey_POST_query", "unauthorized"),
        ("query", "auth_key_missing_POST_query", "unauthorized"),
        ("query", "auth_both_wrongkey_POST_query", "unauthorized"),
        ("query", "adm_body_413_query", "too-large"),
        ("query", "q_topk0", "invalid-argument"),
        ("query_data", "qd_topk0", "invalid-argument"),
        ("query_data", "down_llm503_data", "server-error"),
        ("insert", "insert_same_source", "conflict"),
        ("insert", "insert_during_delete", "conflict"),
        ("insert", "insert_no_source", "invalid-argument"),
        ("insert", "adm_insert2_429", "rate-limited"),
        ("insert", "adm_insert_429_wrongkey", "unauthorized"),
        ("delete", "delete_blank", "invalid-argument"),
    ],
)
async def test_what_the_real_server_refuses_has_its_code_and_its_words(
    tool, capture, code, httpx_mock
):
    serve(httpx_mock, capture)
    error = await failure(tool)
    assert (error.code, error.status) == (code, captured(capture)["status"])
    body = body_of(capture)
    detail = body.get("detail", body.get("message"))
    words = detail[0]["msg"] if isinstance(detail, list) else detail
    assert 'server said: "' in error.message
    assert words.replace('"', "'")[:300] in error.message


async def test_a_route_that_is_gone_is_not_found():
    for capture in ("http_404", "http_405"):
        exchange = captured(capture)
        handler = lambda _, e=exchange: reply(e["body"], e["status"])  # noqa: E731 - one answer
        assert (await error_of(handler, "documents")).code == "not-found"


async def test_the_servers_error_id_is_kept(httpx_mock):
    serve(httpx_mock, "down_llm503_data")
    assert "638b43db53a1" in (await failure("query_data")).message


# --- what is quoted of a refusal --------------------------------------------------------------


async def test_a_422_tells_place_and_message_of_each_fault_and_never_the_input():
    faults = [
        {"type": "x", "loc": ["body", "texts", n], "msg": f"fault {n}", "input": "SECRET-INPUT"}
        for n in range(3)
    ]
    error = await error_of(lambda _: reply({"detail": faults}, 422))
    for n in range(3):
        assert f"body.texts.{n}: fault {n}" in error.message
    assert "SECRET-INPUT" not in str(error)


async def test_an_excerpt_is_clean_short_and_without_the_key():
    detail = f'line\r\nbreak\t"quoted" \u202e\U000e0041 {KEY} ' + "x" * 1000
    error = await error_of(lambda _: reply({"detail": detail}, 500))
    quoted = error.message.partition('server said: "')[2].rpartition('"')[0]
    assert quoted.startswith("line break 'quoted' ")
    assert len(quoted) <= 400
    assert KEY not in error.message
    assert "[redacted]" in error.message
    assert not set(error.message) & set("\n\r\t\u202e\U000e0041")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"<html><title>Sign in</title></html>",
        b'{"detail":{"nested":true}}',
        b'{"detail":5}',
        b"[]",
        b"\xff\xfe",
        b'{"detail":"\\ud800"}',
        b"[" * 5000,
    ],
)
async def test_a_refusal_that_is_not_lightrags_json_still_has_its_code(body):
    error = await error_of(lambda _: reply(body, 500))
    assert (error.code, error.status) == ("server-error", 500)
    assert "<html>" not in error.message


# --- Retry-After ------------------------------------------------------------------------------


async def test_retry_after_seconds_are_in_the_error_and_in_its_text(httpx_mock):
    serve(httpx_mock, "adm_insert2_429")
    error = await failure("insert")
    assert (error.code, error.retry_after_s) == (Code.RATE_LIMITED, 30)
    assert "30 s" in error.message


async def test_retry_after_may_be_a_date():
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    error = await error_of(lambda _: reply(b"", 429, **{"Retry-After": moment}))
    assert 85 <= error.retry_after_s <= 91
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    assert (await error_of(lambda _: reply(b"", 429, **{"Retry-After": past}))).retry_after_s == 0


@pytest.mark.parametrize(
    "value",
    [
        "soon",
        "-5",
        "1.5",
        "9" * 40,
        "Mon, 01 Jan 99999999999 00:00:00 GMT",
        "Mon, 01 Jan 2030 00:00:00 +999999999",
        "1 1",
        "Mon, 99 Jan 2030 00:00:00 GMT",
    ],
)
async def test_a_retry_after_that_says_nothing_is_left_out(value):
    error = await error_of(lambda _: reply(b"", 429, **{"Retry-After": value}))
    assert (error.code, error.retry_after_s) == (Code.RATE_LIMITED, None)


# --- exceptions -------------------------------------------------------------------------------

HTTPX_EXCEPTIONS = sorted(
    {
        kind
        for _, kind in inspect.getmembers(httpx, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__.startswith("httpx")
    },
    key=lambda kind: kind.__name__,
)


def test_every_httpx_exception_has_a_code_and_the_table_names_nothing_else():
    assert len(HTTPX_EXCEPTIONS) > 25
    for kind in HTTPX_EXCEPTIONS:
        code = code_of_exception(kind.__new__(kind))
        assert code in (
            Code.TIMEOUT
            if issubclass(kind, httpx.TimeoutException)
            else (Code.UNREACHABLE, Code.BAD_RESPONSE, Code.SERVER_ERROR)
        )
    assert set(EXCEPTION_CODES) <= set(HTTPX_EXCEPTIONS)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in HTTPX_EXCEPTIONS if issubclass(kind, httpx.TransportError)],
    ids=lambda kind: kind.__name__,
)
async def test_every_failure_of_the_wire_rises_as_its_code(kind, httpx_mock):
    httpx_mock.add_exception(kind(f"failed with {KEY}"))
    error = await failure("query")
    expected = Code.TIMEOUT if issubclass(kind, httpx.TimeoutException) else Code.UNREACHABLE
    assert error.code is expected
    assert ENDPOINT in error.message


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        (ConnectionRefusedError(111, "refused"), "refused"),
        (ConnectionResetError(104, "reset"), "reset"),
        (socket.gaierror(-2, "Name or service not known"), "DNS"),
        (ssl.SSLCertVerificationError(1, "verify failed"), "certificate"),
        (ssl.SSLError(1, "handshake"), "TLS"),
        (BrokenPipeError(32, "pipe"), "closed"),
    ],
)
async def test_the_deepest_useful_reason_is_named(cause, word, httpx_mock):
    for wrap in (lambda: cause, lambda: ExceptionGroup("all attempts", [OSError(), cause])):
        middle = OSError("attempt failed")
        middle.__cause__ = wrap()
        outer = httpx.ConnectError("all attempts failed")
        outer.__cause__ = middle
        httpx_mock.add_exception(outer)
        error = await failure("query")
        assert error.code is Code.UNREACHABLE
        assert word in error.message


def test_every_route_says_whether_it_writes():
    assert {route.path for route in Route if route.writes} == {
        "/documents/text",
        "/documents/scan",
        "/documents/delete_document",
    }
