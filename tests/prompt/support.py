"""A server over real sockets that answers as it is told, and the command line of this room."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from typer.testing import CliRunner

import dsh_lightrag
from dsh_lightrag.cli.app import app
from dsh_lightrag.prompt import KnowledgeConfig, KnowledgeMiddleware, PromptDocument
from dsh_lightrag.transport import Transport

ENDPOINT = "http://127.0.0.1:9621"
NOWHERE = "http://127.0.0.1:9"
KEY = "key-CANARY-93b1"
TASK = "Who discovered polonium, and when?"
CONTEXT = "Document Chunks\n\nMarie Curie discovered polonium in 1898."
NO_CONTEXT = "Sorry, I'm not able to provide an answer to that question.[no-context]"
BACKEND_DEAD = "No relevant context found for the query."
SOURCES = Path(dsh_lightrag.__file__).parent.parent


def replying(context):
    return {"response": context, "references": None, "llm_generated": False}


def reply_with(context):
    """Return the reply as it comes off a wire: a body that is still to be read."""
    return httpx.Response(200, stream=httpx.ByteStream(json.dumps(replying(context)).encode()))


def middleware_over(handler, **row):
    """Return a middleware whose network is a function of the request."""
    config = KnowledgeConfig(**{"endpoint": ENDPOINT, **row})
    transport = Transport(config.connection, inner=httpx.MockTransport(handler))
    return KnowledgeMiddleware(config, transport=transport)


async def enhanced(context, task=TASK, **row):
    """Return the final prompt when the server retrieves this context."""
    middleware = middleware_over(lambda _: reply_with(context), **row)
    return (await middleware.aenhance(PromptDocument(task))).render()


# --- a server ---------------------------------------------------------------------------------


class RawServer:
    """Reads each request whole, keeps it, and lets `answer(request, send, stopping)` reply."""

    def __init__(self):
        self.requests = []
        self.arrived = threading.Event()
        self.answer = says(replying(CONTEXT))
        self._stopping = threading.Event()

    def __enter__(self):
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                request = _read(self.request)
                if request:
                    outer.requests.append(request)
                    outer.arrived.set()
                    try:
                        outer.answer(request, self.request.sendall, outer._stopping)
                    except OSError:
                        return  # the client left

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def bodies(self):
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.requests]


def _read(connection):
    connection.settimeout(10)
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if b"content-length" in line.lower()
        ),
        0,
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def raw(status, body, *headers):
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    data = "\r\n".join([*head, "", ""]).encode() + body
    return lambda _request, send, _stopping: send(data)


def says(value, status=200):
    return raw(status, json.dumps(value).encode(), "Content-Type: application/json")


def silent(_request, _send, stopping):
    stopping.wait(30)


def drips(_request, send, stopping):
    send(b"HTTP/1.1 200 X\r\nContent-Length: 5000\r\n\r\n")
    for _ in range(1000):
        send(b" ")
        if stopping.wait(0.05):
            return


def breaks_off(_request, send, _stopping):
    send(b'HTTP/1.1 200 X\r\nContent-Length: 5000\r\n\r\n{"response": "half')


def endless(_request, send, stopping):
    send(b'HTTP/1.1 200 X\r\nContent-Type: application/json\r\n\r\n{"response": "')
    while not stopping.is_set():
        send(b"x" * 65_536)


# --- the command line -------------------------------------------------------------------------


def command(*arguments):
    """Return the words that run a command of this room in a process of its own."""
    return [sys.executable, "-m", "dsh_lightrag", *arguments]


def environment(**variables):
    """Return the environment of such a process: it finds the sources."""
    return {**os.environ, "PYTHONPATH": str(SOURCES), **variables}


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: bytes
    stderr: bytes


def run(*arguments, stdin=b"", **variables):
    """Run a command in this process; stdout and stderr stay bytes, and apart."""
    result = CliRunner().invoke(app, arguments, input=stdin, env=variables)
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    return Ended(result.exit_code, result.stdout_bytes, result.stderr_bytes)


class Stopwatch:
    def __enter__(self):
        self._started = time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self._started


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
