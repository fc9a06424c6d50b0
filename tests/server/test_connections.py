"""Connections: so many, none that is silent for ever, and an end that tells whom it cuts."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import ExitStack, contextmanager, nullcontext

import httpx
import pytest

from dsh_lightrag import connections
from dsh_lightrag.cli.hosting.flags import Hosting
from dsh_lightrag.cli.hosting.own_server import own_server

BOUND_S = 30
HEAD = b"POST /documents/text HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
WHOLE = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def connected(url):
    """Yield a bare connection."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=BOUND_S) as connection:
        yield connection


def answered(connection):
    """Read one whole answer, which is JSON; return its status line."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    return answer.partition(b"\r\n")[0]


def is_closed(connection):
    """Wait until the other side has let go; tell whether that came without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def hosting(tmp_path):
    """A data folder, quick to open."""
    return Hosting(tmp_path, named=True, embedder="none")


@pytest.mark.parametrize("begun", [b"", b"GET /hea", HEAD])
def test_a_client_that_never_finishes_a_head_is_let_go(hosting, monkeypatch, begun):
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    with own_server(hosting) as url, connected(url) as connection:
        connection.sendall(begun)
        assert is_closed(connection)


def test_a_second_head_has_its_time_as_well(hosting, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    with own_server(hosting) as url, connected(url) as connection:
        connection.sendall(WHOLE)
        assert answered(connection) == b"HTTP/1.1 200 OK"
        connection.sendall(WHOLE[:10])
        assert is_closed(connection)


def test_a_body_that_comes_slowly_is_waited_for(hosting, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    body = json.dumps({"text": "Marie Curie discovered Polonium.", "file_source": "a.md"}).encode()
    with own_server(hosting) as url, connected(url) as slow, connected(url) as silent:
        slow.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        assert is_closed(silent)  # by then the other one was silent for as long
        slow.sendall(body[5:])
        assert answered(slow) == b"HTTP/1.1 200 OK"


def test_what_is_beyond_the_bound_is_closed_and_the_others_are_answered(hosting, monkeypatch):
    monkeypatch.setattr(connections, "MOST", 3)
    with own_server(hosting) as url, ExitStack() as stack:
        first, *_ = [stack.enter_context(connected(url)) for _ in range(3)]
        assert is_closed(stack.enter_context(connected(url)))
        first.sendall(WHOLE)
        assert answered(first) == b"HTTP/1.1 200 OK"


def test_a_request_that_the_end_cuts_is_told_and_leaves_no_traceback(serving):
    server = serving()
    httpx.post(f"{server.url}/query", json={"query": "Is the base made?"}).raise_for_status()
    with connected(server.url) as cut, connected(server.url) as idle:
        cut.sendall(HEAD + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
        assert cut.recv(100).startswith(b"HTTP/1.1 100")  # it is being answered
        cut.sendall(b"{")
        server.process.send_signal(signal.SIGTERM)
        _, log = server.process.communicate(timeout=BOUND_S)
        assert server.process.returncode == 0
        assert b"Traceback" not in log
        assert [json.loads(line)["event"] for line in log.splitlines()] == ["http_server"]
        head, _, body = cut.recv(65536).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        assert b"The server is ending." in body
        assert is_closed(idle)


def test_a_body_that_stops_coming_gives_its_place_free(hosting, monkeypatch):
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    with own_server(hosting) as url, connected(url) as connection:
        connection.sendall(HEAD + b"Content-Length: 10\r\n\r\n{")
        assert is_closed(connection)


NDJSON = [(b"content-type", b"application/x-ndjson")]
EVENTS = [(b"content-type", b"text/event-stream")]


@pytest.mark.parametrize(
    ("headers", "parts", "told"),
    [
        (None, [], b'{"detail": "The server is ending.'),
        (NDJSON, [b"{}\n"], b'{"error": "The server is ending.'),
        (EVENTS, [b"data: {}\n\n"], None),
        ([(b"content-length", b"9")], [b"%PDF"], None),
    ],
    ids=["not begun", "lines", "events", "a file"],
)
async def test_a_cut_answer_says_so_where_its_form_has_room_and_else_is_visibly_cut(
    headers, parts, told
):
    async def answering(_scope, _receive, send):
        if headers is not None:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        raise asyncio.CancelledError

    sent = []

    async def send(message):
        sent.append(message)

    with pytest.raises(asyncio.CancelledError) if told is None else nullcontext():
        await connections.Ending(answering)({"type": "http"}, None, send)
    if told is None:
        assert all(message.get("more_body", True) for message in sent)
    else:
        assert sent[-1]["body"].startswith(told)
        assert not sent[-1].get("more_body")


async def test_an_answer_that_was_whole_before_the_end_stays_as_it_is():
    async def answering(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": NDJSON})
        await send({"type": "http.response.body", "body": b"{}\n"})
        raise asyncio.CancelledError

    sent = []

    async def send(message):
        sent.append(message)

    await connections.Ending(answering)({"type": "http"}, None, send)
    assert [message.get("body") for message in sent] == [None, b"{}\n"]
