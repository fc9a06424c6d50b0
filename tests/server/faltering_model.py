"""A chat model that falters in the middle of its answer, as `how` says; OpenAI-compatible."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "internal-host.example:1234"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not asked.get("stream"):  # what reads passages for the graph gets nothing of use
            body = json.dumps({"error": {"message": f"no {SECRET}", "type": "x"}}).encode()
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for word in ("It ", "was "):
            self._event({"choices": [{"index": 0, "delta": {"content": word}}]})
        if self.server.how == "error":
            self._event({"error": {"message": f"broken at {SECRET}", "type": "server_error"}})
        if self.server.how == "whole":
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_):
        """Say nothing."""


class FalteringModel(ThreadingHTTPServer):
    """A context manager; `how` is whole, cut or error."""

    daemon_threads = True

    def __init__(self, how):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.how = how

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
