"""Connections: so many, none that is silent for ever, and an end that tells whom it cuts."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import ExitStack, contextmanager

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


async def test_lines_that_are_cut_end_with_one_that_says_so():
    async def streaming(_scope, _receive, send):
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}\n", "more_body": True})
        raise asyncio.CancelledError

    sent = []

    async def send(message):
        sent.append(message)

    await connections.Ending(streaming)({"type": "http"}, None, send)
    assert json.loads(sent[-1]["body"])["error"].startswith("The server is ending.")
    assert not sent[-1].get("more_body")
