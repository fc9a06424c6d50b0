"""Every HTTP status has one code, whatever its body says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from dsh_lightrag import Code

from .behaviours import json_value, status
from .replies import ARGUMENTS, FIRST_ROUTE, QUESTION, REPLIES
from .server import HostileServer
from .support import KEY, TOOL_NAMES, attempt, healthy

WRITES = ["dsh_lightrag_insert", "dsh_lightrag_scan", "dsh_lightrag_delete"]

CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHORIZED,
    402: Code.SERVER_ERROR,
    403: Code.UNAUTHORIZED,
    404: Code.NOT_FOUND,
    405: Code.NOT_FOUND,
    409: Code.CONFLICT,
    413: Code.TOO_LARGE,
    418: Code.SERVER_ERROR,
    422: Code.INVALID_ARGUMENT,
    429: Code.RATE_LIMITED,
    451: Code.SERVER_ERROR,
    500: Code.SERVER_ERROR,
    501: Code.SERVER_ERROR,
    502: Code.SERVER_ERROR,
    504: Code.SERVER_ERROR,
    599: Code.SERVER_ERROR,
    999: Code.SERVER_ERROR,
}

BODIES = {
    "detail": b'{"detail": "The reason. (error_id: 4f00aa11bb22)"}',
    "nothing": b"",
    "html": b"<html><title>502 Bad Gateway</title></html>",
    "a valid answer": b'{"response": "forged", "references": []}',
    "a number for a detail": b'{"detail": 7}',
    "a nested detail": b'{"detail": [{"loc": {"a": []}, "msg": []}, 3, null]}',
    "half a detail": b'{"detail": "The rea',
    "binary": bytes(range(256)),
    "a lone surrogate": b'{"detail": "\\ud800"}',
    "depth": b"[" * 50_000,
}


@pytest.mark.parametrize(("code", "expected"), CODES.items())
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_status_has_its_code_for_every_tool(code, expected, tool):
    with HostileServer(status(code, BODIES["detail"])) as server:
        result = await attempt(server.url, tool)
    assert (result.code, result.error.status) == (expected, code)
    assert str(code) in result.error.message
    assert "4f00aa11bb22" in result.error.message
    assert result.error.hint


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("code", [400, 401, 404, 409, 413, 422, 429, 500, 502])
async def test_the_body_of_an_error_never_changes_its_code(code, body):
    with HostileServer(status(code, body)) as server:
        result = await attempt(server.url)
    assert result.code is CODES[code]


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_503_with_a_detail_is_busy_for_writes_and_a_server_error_for_reads(tool):
    with HostileServer(status(503, b'{"detail": "Recovery is under way."}')) as server:
        result = await attempt(server.url, tool)
    assert result.code is (Code.BUSY if tool in WRITES else Code.SERVER_ERROR)


@pytest.mark.parametrize("tool", TOOL_NAMES)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"detail": null}', b"\xff"])
async def test_a_503_without_a_detail_is_a_server_error(tool, body):
    with HostileServer(status(503, body)) as server:
        result = await attempt(server.url, tool)
    assert result.code is Code.SERVER_ERROR


@pytest.mark.parametrize("code", [200, 201, 202, 203, 204, 205, 206])
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_success_without_a_body_is_a_bad_response(code, tool):
    with HostileServer(status(code)) as server:
        result = await attempt(server.url, tool)
    assert result.code is Code.BAD_RESPONSE


async def test_a_switch_to_another_protocol_is_an_error_with_a_code():
    with HostileServer(status(101, b"", [("Upgrade", "h2c"), ("Connection", "Upgrade")])) as server:
        result = await attempt(server.url)
    assert result.code in {Code.SERVER_ERROR, Code.BAD_RESPONSE, Code.UNREACHABLE}


# --- too many requests ---------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_retry_after_in_seconds_is_told_as_a_number_and_in_the_text(tool):
    answer = status(429, b'{"detail": "at capacity"}', [("Retry-After", "30")])
    with HostileServer(answer) as server:
        result = await attempt(server.url, tool)
    assert (result.code, result.error.retry_after_s) == (Code.RATE_LIMITED, 30)
    assert "30" in str(result.error)


async def test_retry_after_as_a_date_is_told_in_seconds():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    with HostileServer(status(429, b"", [("Retry-After", later)])) as server:
        result = await attempt(server.url)
    assert 80 <= result.error.retry_after_s <= 90


ODD_WAITS = [
    "",
    "soon",
    "-5",
    "1.5",
    "NaN",
    "9" * 5000,
    "\u0663\u0660",
    "30, 60",
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 99999 23:59:59 GMT",
    "Wed, 21 Oct 2015 07:28:00",
    "Wed, 21 Oct 2015 07:28:00 +9959",
    "Wed, 21 Oct 2015 07:28:00 +99999999999999",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Wed, 32 Oct 2015 25:61:61 GMT",
    f"later, says {KEY}",
]


@pytest.mark.parametrize("wait", ODD_WAITS)
async def test_a_retry_after_of_any_kind_is_still_a_rate_limit(wait):
    with HostileServer(status(429, b"", [("Retry-After", wait)])) as server:
        result = await attempt(server.url)
    assert result.code is Code.RATE_LIMITED
    assert result.error.retry_after_s is None or result.error.retry_after_s >= 0


async def test_a_rate_limit_without_a_time_has_none():
    with HostileServer(status(429)) as server:
        result = await attempt(server.url)
    assert (result.code, result.error.retry_after_s) == (Code.RATE_LIMITED, None)


# --- a refusal inside a 200 ----------------------------------------------------------------------


@pytest.mark.parametrize("said", ["busy", "not_allowed", "scanning_skipped_pipeline_busy"])
@pytest.mark.parametrize("tool", WRITES)
async def test_a_refusal_inside_a_200_is_busy(tool, said):
    reply = {**REPLIES[FIRST_ROUTE[tool]][1], "status": said, "message": "Pipeline is busy."}
    with HostileServer(json_value(reply)) as server:
        result = await attempt(server.url, tool)
    assert result.code is Code.BUSY
    assert "Pipeline is busy." in result.error.message
    assert len(server.requests) == 1


# --- half of the status tool ---------------------------------------------------------------------


@pytest.mark.parametrize(("code", "expected"), CODES.items())
async def test_counts_that_fail_leave_the_health_and_tell_their_code(code, expected):
    with HostileServer(healthy(status_counts=status(code, BODIES["detail"]))) as server:
        result = await attempt(server.url, "dsh_lightrag_status")
    assert result.structured["status"] == "healthy"
    assert result.structured["countsError"]["code"] == expected
    assert "statusCounts" not in result.structured or not result.structured["statusCounts"]
    assert expected in result.text


# --- what a 422 tells ----------------------------------------------------------------------------


def echo(value):
    """Return the fault list of a real 422, which repeats the rejected input."""
    return {
        "detail": [
            {
                "type": "string_too_long",
                "loc": ["body", "query"],
                "msg": "String should have at most 65536 characters",
                "input": value,
                "ctx": {"max_length": 65536, "input": value},
                "url": f"https://errors.example/{value}",
            }
        ]
    }


@pytest.mark.parametrize("code", [400, 422])
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_422_tells_place_and_message_and_never_the_rejected_input(tool, code):
    with HostileServer(json_value(echo(QUESTION), code)) as server:
        result = await attempt(server.url, tool)
    assert result.code is Code.INVALID_ARGUMENT
    assert "query" in result.error.message
    assert "at most 65536 characters" in result.error.message
    assert "QUESTION-CANARY" not in result.said


async def test_the_hundred_faults_of_a_422_are_bounded():
    faults = {"detail": echo("x")["detail"] * 100}
    with HostileServer(json_value(faults, 422)) as server:
        result = await attempt(server.url)
    assert result.code is Code.INVALID_ARGUMENT
    assert len(result.error.message) < 600


@pytest.mark.parametrize("detail", ["x" * 100_000, "\U0001f600" * 9_000, "a " * 50_000])
async def test_a_long_detail_is_cut_at_400_code_points(detail):
    with HostileServer(json_value({"detail": detail}, 400)) as server:
        result = await attempt(server.url)
    assert result.code is Code.INVALID_ARGUMENT
    assert len(result.error.message) < 500


async def test_the_arguments_of_these_tests_are_good_ones():
    """No code above comes from a local check: a real server's answers make every call succeed."""
    for tool in ARGUMENTS:
        with HostileServer(healthy()) as server:
            result = await attempt(server.url, tool)
        assert result.code is None, tool
