"""Answers without an end: the budget or the cap ends them, and the connection with them."""

from __future__ import annotations

import itertools

import anyio
import pytest

from dsh_lightrag import Code

from . import behaviours as hostile
from .behaviours import GIB, KIB, MIB, json_value
from .replies import QUERY, REPLIES
from .server import HostileServer, never_accepts
from .support import BUDGET_MS, GRACE_S, TOOL_NAMES, Attempt, attempt, healthy, until

CAP = 2 * MIB

ENDLESS = {
    "never answers": hostile.never_answers,
    "stalls in headers": hostile.stalls_in_headers,
    "stalls in body": hostile.stalls_in_body,
    "drips headers": hostile.drips_headers(),
    "drips the body": hostile.drips_body(),
    "drips one byte per second": hostile.drips_body(interval=1.0),
    "slow headers without end": hostile.endless_headers(interval=0.2),
    "1xx answers, slowly": hostile.endless(b"", hostile.head(100), interval=0.02),
}


async def all_at_once(cases) -> dict[str, Attempt]:
    """Run one call per case together: they wait for the same second."""
    results = {}

    async def run(name, *call):
        results[name] = await attempt(*call)

    async with anyio.create_task_group() as tasks:
        for name, *call in cases:
            tasks.start_soon(run, name, *call)
    return results


async def test_an_answer_that_makes_progress_but_never_ends_is_a_timeout():
    servers = {name: HostileServer(behaviour) for name, behaviour in ENDLESS.items()}
    try:
        for server in servers.values():
            server.__enter__()
        results = await all_at_once((name, server.url) for name, server in servers.items())
        await until(lambda: not any(server.open_connections for server in servers.values()))
    finally:
        for server in servers.values():
            server.__exit__()
    for name, result in results.items():
        assert result.code is Code.TIMEOUT, name
        assert result.seconds >= 0.9, name
        assert str(BUDGET_MS) in result.error.message, name


async def test_the_status_of_an_error_whose_body_drips_is_still_told():
    """The status was known in time, whatever the body would have added."""
    with HostileServer(hostile.drips(hostile.head(500), b"x" * 500)) as server:
        result = await attempt(server.url)
        await until(lambda: server.open_connections == 0)
    assert result.code is Code.SERVER_ERROR


async def test_every_tool_gives_up_on_a_server_that_never_answers():
    with HostileServer(hostile.never_answers) as server:
        results = await all_at_once((tool, server.url, tool) for tool in TOOL_NAMES)
        await until(lambda: server.open_connections == 0)
    assert {result.code for result in results.values()} == {Code.TIMEOUT}


async def test_a_listener_that_never_accepts_is_a_timeout():
    with never_accepts() as url:
        result = await attempt(url)
    assert result.code is Code.TIMEOUT


async def test_a_fast_storm_of_informational_answers_is_a_timeout():
    with HostileServer(hostile.informational_storm()) as server:
        result = await attempt(server.url)
        await until(lambda: server.hang_ups)
    assert result.code in {Code.TIMEOUT, Code.UNREACHABLE}


async def test_a_few_informational_answers_before_the_real_one_do_no_harm():
    storm = hostile.informational_storm(50, then=json_value(QUERY))
    with HostileServer(storm) as server:
        result = await attempt(server.url)
    assert result.code is None


async def test_the_budget_is_one_for_all_pages_of_a_listing():
    """Each page takes 0.4 s, which no single wait would find slow; ten of them are."""
    numbers = itertools.count()
    row = REPLIES["POST /documents/paginated"][1]["documents"][0]

    def slow_page(exchange):
        exchange.pause(0.4)
        page = {
            "documents": [{**row, "id": f"doc-{next(numbers)}"} for _ in range(10)],
            "pagination": {"total_count": 5000, "has_next": True},
            "status_counts": {"all": 5000},
        }
        json_value(page)(exchange)

    with HostileServer({"POST /documents/paginated": slow_page}) as server:
        result = await attempt(
            server.url,
            "dsh_lightrag_documents",
            {"limit": 1000},
            documents={"maxListed": 1000},
        )
    assert result.code is Code.TIMEOUT
    assert len(server.requests) <= 3


async def test_a_listing_whose_pages_never_end_stops_at_its_limit():
    numbers = itertools.count()
    row = REPLIES["POST /documents/paginated"][1]["documents"][0]

    def page(exchange):
        rows = [{**row, "id": f"doc-{next(numbers)}"} for _ in range(10)]
        json_value({"documents": rows, "pagination": {"has_next": True}})(exchange)

    with HostileServer({"POST /documents/paginated": page}) as server:
        result = await attempt(server.url, "dsh_lightrag_documents", {"limit": 25})
    assert result.structured["count"] <= 25
    assert result.structured["truncated"] is True


async def test_a_listing_that_repeats_one_page_for_ever_ends():
    page = {**REPLIES["POST /documents/paginated"][1], "pagination": {"has_next": True}}
    with HostileServer({"POST /documents/paginated": json_value(page)}) as server:
        result = await attempt(server.url, "dsh_lightrag_documents", {"limit": 200})
    assert result.code in {None, Code.TIMEOUT, Code.BAD_RESPONSE}
    if result.code is None:
        assert result.structured["count"] == 1


async def test_counts_that_stall_cost_the_status_tool_no_more_than_its_budget():
    with HostileServer(healthy(status_counts=hostile.stalls_in_body)) as server:
        result = await attempt(server.url, "dsh_lightrag_status")
    assert result.structured["status"] == "healthy"
    assert result.structured["countsError"]["code"] == Code.TIMEOUT


async def test_the_sibling_request_is_cancelled_when_the_server_is_down():
    routes = healthy(health=hostile.status(500), status_counts=hostile.never_answers)
    with HostileServer(routes) as server:
        result = await attempt(server.url, "dsh_lightrag_status")
    assert result.code is Code.SERVER_ERROR
    assert result.seconds < GRACE_S


# --- the cap -------------------------------------------------------------------------------------

TOO_LARGE = {
    "1 GiB, announced": hostile.huge_body(GIB),
    "without end, in chunks": hostile.endless_body(),
    "without end, without a length": hostile.endless(
        hostile.head(200, [hostile.JSON]), b" " * 64 * KIB
    ),
    "one byte over": hostile.status(200, b" " * (CAP + 1)),
}


@pytest.mark.parametrize("behaviour", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_a_body_over_the_cap_is_too_large_and_its_connection_is_closed(behaviour):
    with HostileServer(behaviour) as server:
        result = await attempt(server.url, timeoutMs=5000)
        if behaviour is not TOO_LARGE["one byte over"]:
            await until(lambda: server.hang_ups)
    assert result.code is Code.TOO_LARGE
    assert str(CAP) in result.error.message or "2 MiB" in result.error.message


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_every_tool_has_the_cap(tool):
    with HostileServer(hostile.endless_body()) as server:
        result = await attempt(server.url, tool, timeoutMs=5000)
    assert result.code is Code.TOO_LARGE


async def test_a_body_of_exactly_the_cap_is_read():
    whole = b'{"response": "at the cap"}'
    with HostileServer(hostile.json_body(whole.ljust(CAP))) as server:
        result = await attempt(server.url, timeoutMs=5000)
    assert result.structured["answer"] == "at the cap"


HUGE_FAILURES = {404: Code.NOT_FOUND, 429: Code.RATE_LIMITED, 500: Code.SERVER_ERROR}


@pytest.mark.parametrize(("status", "code"), HUGE_FAILURES.items())
@pytest.mark.parametrize("behaviour", [hostile.huge_body, hostile.endless_body])
async def test_the_status_is_judged_before_the_size_of_the_body(status, code, behaviour):
    with HostileServer(behaviour(code=status)) as server:
        result = await attempt(server.url, timeoutMs=5000)
        await until(lambda: server.hang_ups)
    assert result.code is code


# --- what was not asked for ----------------------------------------------------------------------

ENCODED = {
    "gzip bomb": hostile.gzip_bomb(),
    "brotli bomb": hostile.brotli_bomb(),
    "deflate": hostile.encoded("deflate", b"{}"),
    "zstd": hostile.encoded("zstd", b"{}"),
    "gzip of gzip": hostile.encoded("gzip, gzip", b"{}"),
    "an unknown one": hostile.encoded("x-rot13", b"{}"),
    "a lie": hostile.encoded("gzip", b'{"response": "not gzip"}'),
}


@pytest.mark.parametrize("behaviour", ENCODED.values(), ids=ENCODED)
async def test_a_content_encoding_that_was_not_asked_for_is_a_bad_response(behaviour):
    with HostileServer(behaviour) as server:
        result = await attempt(server.url)
    assert result.code is Code.BAD_RESPONSE
    assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_the_identity_encoding_is_none():
    body = b'{"response": "plain"}'
    with HostileServer(hostile.encoded("Identity", body)) as server:
        result = await attempt(server.url)
    assert result.structured["answer"] == "plain"


async def test_a_compressed_error_is_still_the_error_of_its_status():
    bomb = hostile.status(500, b"\x1f\x8b" * 1000, [("Content-Encoding", "gzip")])
    with HostileServer(bomb) as server:
        result = await attempt(server.url)
    assert result.code is Code.SERVER_ERROR
