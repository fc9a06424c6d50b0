"""Connections that break: each is `unreachable`, at once, and the next call works again."""

from __future__ import annotations

import socket

import anyio
import pytest

from dsh_lightrag import Code, ConfigurationError, toolbox

from . import behaviours as hostile
from .behaviours import json_value, says
from .replies import REPLIES
from .server import HostileServer, refused_url
from .support import TOOL_NAMES, attempt, healthy, settings_for, try_call

WHOLE = b'{"response": "whole", "references": []}'

BROKEN = {
    "reset before headers": hostile.reset_before_headers,
    "reset in headers": hostile.reset_in_headers,
    "reset in body": hostile.reset_in_body,
    "closed without a word": hostile.closes_silently,
    "half-closed without a word": hostile.half_closes,
    "half-closed in body": hostile.half_closes_in_body,
    "body shorter than announced": hostile.short_body(WHOLE),
    "chunks without the last": hostile.chunked_short(WHOLE),
    "chunk longer than announced": hostile.chunked_lying(b"5", WHOLE),
    "chunk shorter than announced": hostile.chunked_lying(b"fff", WHOLE),
    "chunk of an absurd length": hostile.chunked_lying(b"f" * 20, WHOLE),
    "chunk of no length": hostile.chunked_lying(b"zz", WHOLE),
    "chunk of negative length": hostile.chunked_lying(b"-1", WHOLE),
    "headers without end": hostile.endless_headers(),
    "trailers without end": hostile.endless_trailers(),
    "chunk extension without end": hostile.endless_chunk_extension(),
    "another protocol": says(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "a status line that is none": says(b"HTTP/1.1 fine\r\n\r\n"),
    "an old protocol without headers": says(b"<html>hello</html>"),
    "a status of four digits": says(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "a negative length": says(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + WHOLE),
    "two lengths": says(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 39\r\n\r\n" + WHOLE
    ),
    "a header without a colon": says(b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n" + WHOLE),
    "a null byte in a header": says(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n" + WHOLE),
}


@pytest.mark.parametrize("behaviour", BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_is_unreachable_and_never_a_short_success(behaviour):
    with HostileServer(behaviour) as server:
        result = await attempt(server.url)
    assert result.code is Code.UNREACHABLE
    assert f"127.0.0.1:{server.port}" in result.error.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_every_tool_reports_a_connection_reset_in_the_body_as_unreachable(tool):
    with HostileServer(hostile.reset_in_body) as server:
        result = await attempt(server.url, tool)
    assert result.code is Code.UNREACHABLE


async def test_a_reset_before_the_request_was_read_is_unreachable():
    with HostileServer(hostile.reset_before_headers, reads_requests=False) as server:
        result = await attempt(server.url)
    assert result.code is Code.UNREACHABLE


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_every_tool_reports_a_refused_connection_as_unreachable(tool):
    result = await attempt(refused_url(), tool)
    assert result.code is Code.UNREACHABLE
    assert "refused" in str(result.error).lower()


async def test_a_host_name_that_does_not_resolve_is_unreachable():
    result = await attempt("http://no-such-host.invalid:9621")
    assert result.code is Code.UNREACHABLE


@pytest.mark.parametrize("host", [f"{'a' * 64}.invalid", f"{'a.' * 150}invalid"])
async def test_a_host_name_that_no_resolver_takes_fails_while_loading(host):
    """Later it would be an error of Python's codecs in the midst of a call."""
    with pytest.raises(ConfigurationError):
        settings_for(f"http://{host}:9621")


async def test_one_dispatcher_survives_every_broken_answer():
    """Good and broken answers take turns: no failure poisons the pool for the next call."""
    with HostileServer(json_value(REPLIES["POST /query"][1])) as server:
        good = server.answer
        async with toolbox(settings_for(server.url)) as dispatcher:
            for name, behaviour in BROKEN.items():
                with anyio.fail_after(10):
                    server.answer = good
                    before = await try_call(dispatcher, "dsh_lightrag_query")
                    server.answer = behaviour
                    broken = await try_call(dispatcher, "dsh_lightrag_query")
                assert (before.code, broken.code) == (None, Code.UNREACHABLE), name
            server.answer = good
            assert (await try_call(dispatcher, "dsh_lightrag_query")).code is None


async def test_good_calls_share_one_connection():
    with HostileServer(healthy()) as server:
        async with toolbox(settings_for(server.url)) as dispatcher:
            for tool in ("dsh_lightrag_query", "dsh_lightrag_scan", "dsh_lightrag_query"):
                assert (await try_call(dispatcher, tool)).code is None
    assert server.connections == 1


async def test_the_status_tool_reports_counts_that_break_off_beside_a_good_health():
    with HostileServer(healthy(status_counts=hostile.reset_in_body)) as server:
        result = await attempt(server.url, "dsh_lightrag_status")
    assert result.structured["countsError"]["code"] == Code.UNREACHABLE
    assert result.structured["status"] == "healthy"


async def test_an_answer_before_the_request_was_read_is_told_or_refused():
    answer = json_value(REPLIES["POST /query"][1])

    def answer_and_close(exchange):
        answer(exchange)
        exchange.close()

    with HostileServer(answer_and_close, reads_requests=False) as server:
        result = await attempt(server.url)
    assert result.code in {None, Code.UNREACHABLE}


@pytest.mark.parametrize("host", ["::1", "127.0.0.1"])
async def test_localhost_reaches_a_server_on_either_loopback_family(host, monkeypatch):
    """The resolver names both families, as on a usual machine; the server listens on one."""
    real = socket.getaddrinfo

    def both_families(name, port, _family=0, *rest, **named):
        names = ["::1", "127.0.0.1"] if name in ("localhost", b"localhost") else [name]
        return [one for name in names for one in real(name, port, 0, *rest, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", both_families)
    with HostileServer(healthy(), host=host) as server:
        result = await attempt(f"http://localhost:{server.port}")
    assert result.code is None


async def test_an_ipv6_literal_is_reached():
    with HostileServer(healthy(), host="::1") as server:
        result = await attempt(f"http://[::1]:{server.port}")
    assert result.code is None
    assert server.requests[0].headers["host"] == f"[::1]:{server.port}"
