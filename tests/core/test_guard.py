"""The guard before our HTTP servers: who comes in, and how large a body may be."""

from __future__ import annotations

import httpx
import pytest

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.guard import Entry, Guard, Refused, Reply

METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]
PATHS = ["/documents/upload", "/documents/scan", "/documents", "/no/such/path", "/"]


class Application:
    """Reads the whole body and says how long it was; remembers that it was asked."""

    def __init__(self):
        self.asked = 0

    async def __call__(self, _scope, receive, send):
        self.asked += 1
        size = 0
        while (message := await receive())["type"] == "http.request":
            size += len(message["body"])
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})


def word(refused, most):
    return Reply(f"{refused.name} {most}".encode(), "text/plain")


async def ask(entry, method="POST", path="/", host="127.0.0.1:9621", content=b"", **headers):
    """Return what a guarded application answers, and whether it was asked at all."""
    application = Application()
    transport = httpx.ASGITransport(Guard(application, entry, word))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        answer = await client.request(
            method, path, content=content, headers={"Host": host, **headers}
        )
    return answer, bool(application.asked)


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:1", "[::1]:9621", "localhost:65535"])
async def test_every_port_of_a_loopback_name_is_let_in(host):
    answer, asked = await ask(Entry(), host=host)
    assert (answer.status_code, asked) == (200, True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", PATHS)
async def test_a_name_that_was_made_to_point_here_gets_nothing(method, path):
    answer, asked = await ask(Entry(), method, path, host="evil.example:9621")
    assert (answer.status_code, asked) == (Refused.HOST.status, False)


@pytest.mark.parametrize(
    "host", ["", "localhost.evil.example", "localhost@evil", "localhost:", "127.0.0.1:x", "[::1"]
)
async def test_a_host_that_only_looks_like_ours_gets_nothing(host):
    answer, asked = await ask(Entry(), host=host)
    assert (answer.status_code, asked) == (Refused.HOST.status, False)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", PATHS)
async def test_a_page_of_another_site_gets_nothing_and_no_permission(method, path):
    answer, asked = await ask(Entry(), method, path, Origin="https://evil.example")
    assert (answer.status_code, asked) == (Refused.ORIGIN.status, False)
    assert [name for name in answer.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://127.0.0.1:3000", "http://localhost:9621", "file://", "127.0.0.1:9621"],
)
async def test_an_origin_other_than_the_address_that_was_asked_gets_nothing(origin):
    answer, asked = await ask(Entry(), Origin=origin)
    assert (answer.status_code, asked) == (Refused.ORIGIN.status, False)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:9621", "http://127.0.0.1:9621"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost:443"),
        ("127.0.0.1:9621", "https://App.Example"),
    ],
)
async def test_the_same_origin_and_a_configured_one_are_let_in(host, origin):
    answer, asked = await ask(Entry(origins=("https://app.example",)), host=host, Origin=origin)
    assert (answer.status_code, asked) == (200, True)


async def test_two_hosts_or_a_second_foreign_origin_get_nothing():
    guarded = Guard(Application(), Entry(), word)
    for headers, status in (
        ([(b"host", b"localhost"), (b"host", b"localhost")], Refused.HOST.status),
        ([], Refused.HOST.status),
        (
            [
                (b"host", b"localhost"),
                (b"origin", b"http://localhost"),
                (b"origin", b"http://evil.example"),
            ],
            Refused.ORIGIN.status,
        ),
    ):
        sent = []

        async def send(message, sent=sent):
            sent.append(message)

        await guarded({"type": "http", "path": "/", "headers": headers}, None, send)
        assert sent[0]["status"] == status


async def test_a_websocket_is_closed_unasked():
    application, sent = Application(), []

    async def send(message):
        sent.append(message)

    await Guard(application, Entry(), word)({"type": "websocket"}, None, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert application.asked == 0


async def test_a_configured_port_lets_no_other_in():
    entry = Entry(hosts=("kb.example:8443", "any.example:*"))
    for host, status in (
        ("kb.example:8443", 200),
        ("kb.example", 421),
        ("kb.example:80", 421),
        ("any.example", 200),
        ("any.example:7", 200),
        ("localhost", 421),
    ):
        answer, _ = await ask(entry, host=host)
        assert (host, answer.status_code) == (host, status)


# --- bodies -----------------------------------------------------------------------------------

SMALL = Entry(max_body=10, larger=((r"/documents/texts?", 20),))


@pytest.mark.parametrize(("path", "most"), [("/query", 10), ("/documents/text", 20)])
async def test_a_body_may_be_as_large_as_its_path_says(path, most):
    assert (await ask(SMALL, path=path, content=b"x" * most))[0].text == str(most)
    answer, asked = await ask(SMALL, path=path, content=b"x" * (most + 1))
    assert (answer.status_code, answer.text, asked) == (413, f"BODY {most}", False)


@pytest.mark.parametrize("length", [None, "3"])
async def test_a_body_is_counted_whatever_length_it_says(length):
    async def pieces():
        for _ in range(1000):
            yield b"xxxx"

    headers = {"Content-Length": length} if length else {}
    answer, _ = await ask(SMALL, content=pieces(), **headers)
    assert (answer.status_code, answer.text) == (413, "BODY 10")


async def test_an_application_that_breaks_over_a_cut_body_is_not_heard():
    async def broken(_scope, receive, _send):
        while (await receive())["type"] == "http.request":
            pass
        raise RuntimeError("the client left")

    transport = httpx.ASGITransport(Guard(broken, SMALL, word))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.post("/", content=_pieces())).status_code == 413


async def _pieces():
    for _ in range(100):
        yield b"xxxx"


async def test_a_fault_of_the_application_is_its_own():
    async def broken(_scope, _receive, _send):
        raise RuntimeError("a bug")

    transport = httpx.ASGITransport(Guard(broken, SMALL, word))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with pytest.raises(RuntimeError, match="a bug"):
            await client.get("/")


@pytest.mark.parametrize(
    "fields",
    [{"hosts": ("http://a",)}, {"hosts": ("a/b",)}, {"origins": ("a.example",)}, {"hosts": ("",)}],
)
def test_an_entry_that_no_header_can_match_is_a_configuration_error(fields):
    with pytest.raises(ConfigurationError):
        Entry(**fields)
