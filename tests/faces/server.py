"""A small HTTP server that answers in LightRAG's shapes, and can keep a caller waiting."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "canary-key-0d9f2c"
WAIT_S = 20
ANSWER = {
    "response": "Marie and Pierre Curie found polonium [1].",
    "references": [{"reference_id": "1", "file_path": "curie.md", "content": None}],
    "llm_generated": True,
}
REPLIES = {
    "/query": (200, ANSWER),
    "/documents/paginated": (200, {"documents": [], "pagination": {"total_count": 0}}),
    "/health": (200, {"status": "healthy", "core_version": "1.5.7", "pipeline_busy": False}),
    "/documents/status_counts": (200, {"status_counts": {"all": 0}}),
    # It repeats the key that it was sent, as a badly written server might.
    "/documents/text": (409, {"detail": f"A document named curie.md exists, said {KEY}."}),
    "/documents/scan": (200, {"status": "scanning_started", "message": "", "track_id": "t"}),
}


class KnowledgeServer:
    """Answers from a table; `hang()` makes it keep the next callers waiting instead.

    Attributes:
        requests: the path, headers and body of each, in order.
        asked: set when a request is kept waiting.
        left: set when a caller that was kept waiting has closed its connection.
    """

    def __init__(self):
        self.replies = dict(REPLIES)
        self.requests = []
        self.connections = 0
        self.hanging = False
        self.asked = threading.Event()
        self.left = threading.Event()
        self.idle_left = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._thread.join(WAIT_S)
        self._http.server_close()

    def hang(self):
        self.hanging = True

    def _handler(outer):  # noqa: N805 - inside, `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = WAIT_S

            def setup(self):
                super().setup()
                outer.connections += 1

            def finish(self):
                super().finish()
                outer.idle_left.set()

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.path, dict(self.headers), body))
                if outer.hanging:
                    outer.asked.set()
                    if self.connection.recv(1) == b"":
                        outer.left.set()
                    self.close_connection = True
                    return
                status, reply = outer.replies[self.path]
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

            def log_message(self, *_):
                """Print nothing: the log is looked through for the key."""

        return Handler
