"""The command as users run it: in this process, or as a process of its own; a small server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dsh_lightrag
from dsh_lightrag.cli.app import app

KEY = "the-key-of-these-tests-7731"
WAIT_S = 60
COUNTS = {"pending": 0, "processing": 0, "processed": 2, "failed": 0, "all": 2}
HEALTH = {
    "status": "healthy",
    "core_version": "1.5.7",
    "api_version": "0344",
    "auth_mode": "disabled",
}
ANSWER = {
    "response": "Marie Curie [1]",
    "references": [{"reference_id": "1", "file_path": "curie.md", "content": ["A passage."]}],
    "llm_generated": True,
}
ROUTES = {
    "/health": ["get"],
    "/query": ["post"],
    "/query/data": ["post"],
    "/documents/paginated": ["post"],
    "/documents/status_counts": ["get"],
    "/documents/text": ["post"],
    "/documents/scan": ["post"],
    "/documents/delete_document": ["delete"],
}
ACCEPTED = {"status": "success", "message": "Received.", "track_id": "t-1", "doc_id": "doc-1"}
LISTING = {
    "documents": [
        {"id": "doc-1", "status": "processed", "file_path": "curie.md", "chunks_count": 3},
        {"id": "doc-2", "status": "failed", "file_path": "[red]x[/red].md", "error_msg": "bad key"},
    ],
    "pagination": {"total_count": 2, "has_next": False},
    "status_counts": COUNTS,
}


@dataclass
class Server:
    """A server that answers as LightRAG does; a test replaces what it needs otherwise.

    Attributes:
        replies: by path: the status and the body, as JSON or as bytes.
        requests: what was asked: method, path, headers, body.
        asked: set once a request has arrived.
        held: while it is clear, no answer is given.
    """

    url: str = ""
    replies: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self):
        self.held.set()
        self.replies |= {
            "/health": (200, HEALTH),
            "/documents/status_counts": (200, {"status_counts": COUNTS}),
            "/documents/paginated": (200, LISTING),
            "/openapi.json": (200, {"paths": {p: {m: {} for m in ms} for p, ms in ROUTES.items()}}),
            "/query": (200, ANSWER),
            "/query/data": (200, {"status": "success", "data": {}, "metadata": {}}),
            "/documents/text": (200, ACCEPTED),
            "/documents/scan": (200, ACCEPTED | {"status": "scanning_started"}),
            "/documents/delete_document": (200, ACCEPTED | {"status": "deletion_started"}),
        }

    def bodies(self, path):
        return [json.loads(body) for _, asked, _, body in self.requests if asked == path]

    def keys(self):
        return {headers.get("X-API-Key") for _, _, headers, _ in self.requests}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server.lightrag
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        server.requests.append((self.command, self.path, dict(self.headers), body))
        server.asked.set()
        server.held.wait(WAIT_S)
        status, reply = server.replies.get(self.path, (404, {"detail": "Not Found"}))
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_DELETE = do_GET  # noqa: N815 - the names are http.server's


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that hangs up is no news."""


@contextmanager
def serving(*, tls=None, name="127.0.0.1"):
    """Serve until the end of the block, over TLS where a context is given."""
    with _Quiet(("127.0.0.1", 0), _Handler) as http:
        scheme = "http"
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
            scheme = "https"
        http.lightrag = Server(f"{scheme}://{name}:{http.server_address[1]}")
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield http.lightrag
        finally:
            http.lightrag.held.set()
            http.shutdown()


@pytest.fixture
def server(monkeypatch):
    """A well server, and the variable that names it."""
    with serving() as running:
        monkeypatch.setenv("LIGHTRAG_ENDPOINT", running.url)
        yield running


@pytest.fixture
def run():
    """Run the command in this process; returns its status, stdout and stderr."""

    def invoke(*arguments, stdin=None):
        return CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)

    return invoke


def spawned(*arguments, **options):
    """Start the command as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(dsh_lightrag.__file__).parents[1])}
    environment |= options.pop("env", {})
    prefix = options.pop("prefix", ())
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [*prefix, sys.executable, "-m", "dsh_lightrag", *map(str, arguments)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        | options,
        env=environment,
    )


def ran(*arguments, **options):
    """Run the command as a process; returns its status, stdout and stderr, as bytes."""
    with spawned(*arguments, **options) as process:
        out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err
