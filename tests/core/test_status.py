"""dsh_lightrag_status: server down, wrong key and nothing ingested are three different things."""

from __future__ import annotations

import anyio
import httpx
import pytest

from dsh_lightrag import Code, LightRagError

from .support import ENDPOINT, body_of, call, call_over, failure, reply, serve

HEALTH = f"{ENDPOINT}/health"
COUNTS = f"{ENDPOINT}/documents/status_counts"


async def test_a_real_server_with_documents(httpx_mock):
    serve(httpx_mock, "health_anonymous", "status_counts")
    outcome = await call("status")
    assert outcome.structured == {
        "status": "healthy",
        "coreVersion": "1.5.7",
        "apiVersion": "0344",
        "authMode": "disabled",
        "pipelineBusy": False,
        "statusCounts": body_of("status_counts")["status_counts"],
    }
    for part in ("lets this deployment in", "11 document(s)", "4 document(s) failed"):
        assert part in outcome.text


async def test_nothing_ingested_is_said(httpx_mock):
    serve(httpx_mock, "health_anonymous", "emptyidx_status_counts")
    outcome = await call("status")
    assert outcome.structured["statusCounts"]["all"] == 0
    assert "nothing is ingested" in outcome.text


async def test_a_busy_pipeline_is_told(httpx_mock):
    serve(httpx_mock, "busy_health", "status_counts")
    outcome = await call("status")
    assert outcome.structured["pipelineBusy"] is True
    assert "pipeline busy: yes" in outcome.text


@pytest.mark.parametrize(
    ("busy", "active", "told"),
    [(True, False, True), (False, True, True), (None, True, True), (False, False, False)],
)
async def test_queued_work_counts_as_busy(busy, active, told, httpx_mock):
    health = {"status": "healthy", "pipeline_busy": busy, "pipeline_active": active}
    httpx_mock.add_response(url=HEALTH, json=health)
    serve(httpx_mock, "status_counts")
    assert (await call("status")).structured["pipelineBusy"] is told


async def test_a_health_that_says_little_is_enough(httpx_mock):
    httpx_mock.add_response(url=HEALTH, json={"status": "healthy"})
    serve(httpx_mock, "status_counts")
    structured = (await call("status")).structured
    assert (structured["coreVersion"], structured["apiVersion"]) == (None, None)


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "unauthorized"), (403, "unauthorized"), (500, "server-error"), (404, "not-found")],
)
async def test_when_only_the_counts_fail_the_health_still_comes_back(status, code, httpx_mock):
    serve(httpx_mock, "health_anonymous")
    httpx_mock.add_response(url=COUNTS, status_code=status, json={"detail": "Invalid API Key"})
    outcome = await call("status")
    assert outcome.structured["status"] == "healthy"
    assert outcome.structured["statusCounts"] == {}
    error = outcome.structured["countsError"]
    assert set(error) == {"code", "message"}
    assert error["code"] == code
    assert "Invalid API Key" in error["message"]
    assert code in outcome.text
    assert "nothing is ingested" not in outcome.text


async def test_counts_of_the_wrong_shape_are_a_counts_error(httpx_mock):
    serve(httpx_mock, "health_anonymous")
    httpx_mock.add_response(url=COUNTS, json=[])
    assert (await call("status")).structured["countsError"]["code"] == "bad-response"


async def test_a_counts_route_that_cannot_be_reached_is_a_counts_error(httpx_mock):
    serve(httpx_mock, "health_anonymous")
    httpx_mock.add_exception(httpx.ReadError("gone"), url=COUNTS)
    assert (await call("status")).structured["countsError"]["code"] == "unreachable"


async def test_a_server_that_is_down_is_an_error(httpx_mock):
    httpx_mock.add_exception(httpx.ConnectError("refused"), is_reusable=True)
    assert (await failure("status")).code is Code.UNREACHABLE


async def test_a_health_that_fails_cancels_the_counts():
    cancelled = anyio.Event()
    counting = anyio.Event()

    async def handler(request):
        if request.url.path == "/health":
            await counting.wait()
            return reply({"detail": "boom"}, 500)
        counting.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(5):
        with pytest.raises(LightRagError) as caught:
            await call_over(handler, "status")
        assert caught.value.code is Code.SERVER_ERROR
        await cancelled.wait()


async def test_both_are_asked_at_once():
    both = [anyio.Event(), anyio.Event()]

    async def handler(request):
        health = request.url.path == "/health"
        both[health].set()
        await both[not health].wait()
        return reply(body_of("health_anonymous" if health else "status_counts"))

    with anyio.fail_after(5):
        assert (await call_over(handler, "status")).structured["statusCounts"]["all"] == 11


async def test_it_takes_no_arguments(httpx_mock):
    for arguments in ({"verbose": True}, {"status": "x"}):
        assert (await failure("status", arguments)).code is Code.INVALID_ARGUMENT
    assert httpx_mock.get_requests() == []


async def test_the_timeout_of_the_counts_is_a_counts_error_within_the_one_budget():
    async def handler(request):
        if request.url.path == "/health":
            return reply(body_of("health_anonymous"))
        await anyio.sleep_forever()
        return None

    with anyio.fail_after(5):
        outcome = await call_over(handler, "status", timeoutMs=1000)
    assert outcome.structured["countsError"]["code"] == "timeout"
