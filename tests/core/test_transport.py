"""Section 3 of the contract, as far as a wire in memory can show it."""

from __future__ import annotations

import asyncio

import anyio
import httpx
import pytest

from dsh_lightrag import Code, LightRagError, toolbox
from dsh_lightrag.budget import Budget
from dsh_lightrag.origin import parse_origin
from dsh_lightrag.settings import Connection
from dsh_lightrag.transport import MAX_RESPONSE_BYTES, OriginLock, Transport
from dsh_lightrag.version import __version__
from dsh_lightrag.wire import Route

from .support import (
    ARGUMENTS,
    ENDPOINT,
    KEY,
    body_of,
    call,
    call_over,
    failure,
    reply,
    sent,
    serve,
    settings_for,
)

ROUTES = {
    "query": [("POST", "/query")],
    "documents": [("POST", "/documents/paginated")],
    "status": [("GET", "/health"), ("GET", "/documents/status_counts")],
    "query_data": [("POST", "/query/data")],
    "insert": [("POST", "/documents/text")],
    "scan": [("POST", "/documents/scan")],
    "delete": [("DELETE", "/documents/delete_document")],
}
ANSWERS = {
    "query": ["query_mix"],
    "documents": ["paginated_failed"],
    "status": ["health_anonymous", "status_counts"],
    "query_data": ["data_mix"],
    "insert": ["insert_text_ok"],
    "scan": ["scan_ok"],
    "delete": ["delete_ok"],
}


# --- T1: one origin, fixed paths --------------------------------------------------------------


@pytest.mark.parametrize("tool", ROUTES)
async def test_a_tool_asks_its_fixed_routes_of_the_configured_origin(tool, httpx_mock):
    serve(httpx_mock, *ANSWERS[tool])
    await call(tool)
    asked = [(request.method, str(request.url)) for request in httpx_mock.get_requests()]
    assert sorted(asked) == sorted((method, ENDPOINT + path) for method, path in ROUTES[tool])


async def test_a_base_path_stands_before_every_route(httpx_mock):
    httpx_mock.add_response(url="https://rag.example/a/b/query", json=body_of("query_mix"))
    await call("query", endpoint="https://rag.example", basePath="/a/b/")


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/health",
        "http://127.0.0.1:9622/health",
        "http://127.0.0.1/health",
        "https://127.0.0.1:9621/health",
        "http://127.0.0.2:9621/health",
        "http://user@127.0.0.1:9621/health",
        "http://127.0.0.1:9621@evil.example/health",
        "ws://127.0.0.1:9621/health",
        "/health",
    ],
)
async def test_the_lock_refuses_any_other_origin_before_a_socket_is_opened(url, httpx_mock):
    lock = OriginLock(httpx.AsyncHTTPTransport(), parse_origin(ENDPOINT))
    with pytest.raises(LightRagError) as caught:
        await lock.handle_async_request(httpx.Request("GET", url, headers={"X-API-Key": KEY}))
    assert caught.value.code is Code.UNREACHABLE
    assert httpx_mock.get_requests() == []
    await lock.aclose()


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ("http://h", "http://h:80/health"),
        ("https://h", "https://h/health"),
        ("http://[::1]:9", "http://[::1]:9/health"),
    ],
)
async def test_the_lock_lets_the_origin_pass(origin, url):
    inner = httpx.MockTransport(lambda _: httpx.Response(204))
    response = await OriginLock(inner, parse_origin(origin)).handle_async_request(
        httpx.Request("GET", url)
    )
    assert response.status_code == 204


async def test_the_transport_itself_is_behind_the_lock(httpx_mock):
    settings = settings_for()
    parts = settings.connection
    tampered = Connection(
        parts.origin, "@evil.example", parts.api_key, "", ca_file=None, use_proxy=False
    )
    async with Transport(tampered) as transport:
        with pytest.raises(LightRagError) as caught:
            await transport.send(Route.HEALTH, Budget.start(1000))
    assert caught.value.code is Code.UNREACHABLE
    assert httpx_mock.get_requests() == []


# --- T2: redirects ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_only_its_origin_is_named(status, httpx_mock):
    location = f"https://Evil.example:8443/steal?key={KEY}#top"
    httpx_mock.add_response(status_code=status, headers={"Location": location})
    error = await failure("query")
    assert (error.code, error.status) == (Code.BAD_RESPONSE, status)
    assert str(status) in error.message
    assert "https://evil.example:8443" in error.message
    assert "steal" not in error.message
    assert len(httpx_mock.get_requests()) == 1


@pytest.mark.parametrize("location", ["", "/webui/", "http://[", "x" * 9000, "\x01", "https://é/"])
async def test_a_location_that_names_no_origin_is_not_repeated(location, httpx_mock):
    httpx_mock.add_response(status_code=307, headers=[(b"Location", location.encode())])
    error = await failure("query")
    assert (error.code, error.status) == (Code.BAD_RESPONSE, 307)
    assert len(error.message) < 600


async def test_the_servers_own_redirect_of_a_trailing_slash_is_refused_too(httpx_mock):
    httpx_mock.add_response(status_code=307, headers={"location": f"{ENDPOINT}/health"})
    httpx_mock.add_response(json=body_of("status_counts"), is_optional=True)
    assert (await failure("status")).code is Code.BAD_RESPONSE


# --- T3: headers ------------------------------------------------------------------------------

ALWAYS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"dsh-lightrag/{__version__}",
    "host": "127.0.0.1:9621",
}


@pytest.mark.parametrize("tool", ROUTES)
@pytest.mark.parametrize("key", [KEY, ""])
async def test_the_headers_are_exactly_these(tool, key, httpx_mock, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    serve(httpx_mock, *ANSWERS[tool])
    await call(tool, apiKey=key)
    for request in httpx_mock.get_requests():
        expected = ALWAYS | ({"x-api-key": key} if key else {})
        if request.content:
            expected |= {"content-type": "application/json"}
        if request.method != "GET":
            expected |= {"content-length": str(len(request.content))}
        assert dict(request.headers) == expected


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "identity, gzip", "x"])
async def test_a_content_encoding_that_was_not_asked_for_is_a_bad_response(encoding, httpx_mock):
    body = httpx.ByteStream(b'{"response":"plain all the same"}')
    httpx_mock.add_response(stream=body, headers={"Content-Encoding": encoding})
    assert (await failure("query")).code is Code.BAD_RESPONSE


async def test_the_identity_encoding_is_no_encoding(httpx_mock):
    httpx_mock.add_response(json=body_of("query_mix"), headers={"Content-Encoding": "Identity"})
    await call("query")


async def test_no_cookie_is_kept(httpx_mock):
    httpx_mock.add_response(
        json=body_of("query_mix"), headers={"Set-Cookie": "session=1; Path=/"}, is_reusable=True
    )
    async with toolbox(settings_for()) as tools:
        for _ in range(2):
            await tools.call("dsh_lightrag_query", ARGUMENTS["query"])
    assert all("cookie" not in request.headers for request in httpx_mock.get_requests())


# --- T4, T5: one deadline, and cancellation ---------------------------------------------------


class Stalled(httpx.AsyncByteStream):
    """A body of which one byte comes, and then nothing."""

    def __init__(self):
        self.begun = anyio.Event()
        self.closed = False

    async def __aiter__(self):
        yield b"{"
        self.begun.set()
        await anyio.sleep_forever()

    async def aclose(self):
        self.closed = True


async def never(_request):
    await anyio.sleep_forever()


async def test_a_server_that_never_answers_is_a_timeout_that_names_half_and_budget():
    with anyio.fail_after(5), pytest.raises(LightRagError) as caught:
        await call_over(never, "query", timeoutMs=1000)
    assert caught.value.code is Code.TIMEOUT
    assert "1000 ms" in caught.value.message
    assert "begin" in caught.value.message


async def test_a_body_that_stalls_is_a_timeout_that_names_the_other_half():
    body = Stalled()
    with anyio.fail_after(5), pytest.raises(LightRagError) as caught:
        await call_over(lambda _: httpx.Response(200, stream=body), "query", timeoutMs=1000)
    assert caught.value.code is Code.TIMEOUT
    assert "1000 ms" in caught.value.message
    assert "body" in caught.value.message
    assert body.closed


async def test_a_listing_of_many_slow_pages_has_one_deadline():
    async def slow_page(request):
        await anyio.sleep(0.4)  # shorter than the budget, three of them longer
        page = sent(request)["page"]
        rows = [{"id": f"doc-{page}-{n}", "status": "processed"} for n in range(200)]
        return reply({"documents": rows, "pagination": {"has_next": True}})

    with anyio.fail_after(5), pytest.raises(LightRagError) as caught:
        await call_over(slow_page, "documents", {}, timeoutMs=1000, documents={"maxListed": 1000})
    assert caught.value.code is Code.TIMEOUT


@pytest.mark.parametrize("half", ["headers", "body"])
async def test_cancelling_passes_through_as_cancellation_and_closes(half):
    body = Stalled()
    asked = anyio.Event()

    async def handler(request):
        asked.set()
        return await never(request) if half == "headers" else httpx.Response(200, stream=body)

    task = asyncio.ensure_future(call_over(handler, "query"))
    with anyio.fail_after(5):
        await (asked if half == "headers" else body.begun).wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert body.closed is (half == "body")


# --- T6, T7: the cap, and a wire that breaks --------------------------------------------------


class Chunks(httpx.AsyncByteStream):
    """A body in chunks, that counts how many were taken."""

    def __init__(self, *chunks, error=None):
        self.chunks = chunks
        self.error = error
        self.taken = 0
        self.closed = False

    async def __aiter__(self):
        for chunk in self.chunks:
            self.taken += 1
            yield chunk
        if self.error:
            raise self.error

    async def aclose(self):
        self.closed = True


async def test_a_body_of_exactly_the_cap_is_read_and_one_byte_more_is_too_large():
    answer = b'{"response":"a","llm_generated":true}'

    def of_size(size):
        body = Chunks(answer, b" " * (size - len(answer)))
        return lambda _: httpx.Response(200, stream=body)

    assert MAX_RESPONSE_BYTES == 2 * 1024 * 1024
    assert (await call_over(of_size(MAX_RESPONSE_BYTES), "query")).structured["answer"] == "a"
    with pytest.raises(LightRagError) as caught:
        await call_over(of_size(MAX_RESPONSE_BYTES + 1), "query")
    assert (caught.value.code, caught.value.status) == (Code.TOO_LARGE, 200)
    assert str(MAX_RESPONSE_BYTES) in caught.value.message


async def test_an_endless_body_is_closed_soon_after_the_cap():
    body = Chunks(*[b"x" * 65536] * 1000)
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: httpx.Response(200, stream=body), "query")
    assert caught.value.code is Code.TOO_LARGE
    assert body.taken == 33
    assert body.closed


async def test_the_status_is_judged_before_the_size():
    body = Chunks(*[b"x" * 65536] * 1000)
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: httpx.Response(500, stream=body), "query")
    assert (caught.value.code, caught.value.status) == (Code.SERVER_ERROR, 500)
    assert body.taken < 40
    assert body.closed


@pytest.mark.parametrize("error", [httpx.ReadError, httpx.RemoteProtocolError, httpx.CloseError])
async def test_a_body_that_breaks_off_is_unreachable_never_a_short_success(error):
    whole = b'{"response":"a","llm_generated":true}'
    body = Chunks(whole, error=error("gone"))
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: httpx.Response(200, stream=body), "query")
    assert caught.value.code is Code.UNREACHABLE
    assert ENDPOINT in caught.value.message


async def test_a_broken_error_body_still_tells_its_status():
    body = Chunks(b'{"detail":', error=httpx.ReadError("gone"))
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: httpx.Response(404, stream=body), "query")
    assert (caught.value.code, caught.value.status) == (Code.NOT_FOUND, 404)
