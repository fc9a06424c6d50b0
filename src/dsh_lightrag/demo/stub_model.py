"""An OpenAI-compatible stub on loopback, with switches that make its backends fail.

Serves `POST /v1/chat/completions` (whole or streamed), `POST /v1/embeddings` (float or base64)
and `GET /v1/models`. What it says comes from `stub_replies`.
"""

from __future__ import annotations

import base64
import json
import re
import socketserver
import struct
import sys
import threading
from collections import Counter
from enum import Enum, auto
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ValidationError

from dsh_lightrag.demo.stub_replies import Ask, Prompt, embed, reply

if TYPE_CHECKING:
    from types import TracebackType

CHAT_MODEL = "stub-chat"
EMBEDDING_MODEL = "stub-embedding"

_SILENT_CLIENT_S = 10.0
_PIECE = re.compile(r"\s*\S+\s*")


class Backend(Enum):
    """How a backend behaves."""

    OK = auto()
    UNAUTHORIZED = auto()  # 401 at once: a wrong provider key
    UNAVAILABLE = auto()  # 503 at once: clients try again before they give up
    SLOW = auto()  # a right answer after `slow_s`, or as soon as the switch leaves SLOW


# Keys of OpenAI's error object that clients read: message, type, code.
_FAILURES: dict[Backend, tuple[HTTPStatus, str, str]] = {
    Backend.UNAUTHORIZED: (HTTPStatus.UNAUTHORIZED, "invalid_request_error", "invalid_api_key"),
    Backend.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "server_error", "unavailable"),
}


class StubModel:
    """A language and an embedding model made of rules; a context manager.

    Attributes:
        chat: how chat completions behave; may be set at any time.
        embeddings: how embeddings behave; may be set at any time.
        slow_s: how long a SLOW backend takes.
    """

    def __init__(self, *, slow_s: float = 3.0) -> None:
        self.slow_s = slow_s
        self._chat = Backend.OK
        self._embeddings = Backend.OK
        self._closing = False
        self._changed = threading.Condition()
        self._requests: Counter[Ask] = Counter()
        self._server: _Server | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The base URL for an OpenAI client; empty before the start, kept after the end."""
        return self._url

    @property
    def requests(self) -> Counter[Ask]:
        """How often each question arrived so far, failed ones included (a copy)."""
        with self._changed:
            return self._requests.copy()

    @property
    def chat(self) -> Backend:
        """How chat completions behave."""
        return self._chat

    @chat.setter
    def chat(self, backend: Backend) -> None:
        with self._changed:
            self._chat = backend
            self._changed.notify_all()

    @property
    def embeddings(self) -> Backend:
        """How embeddings behave."""
        return self._embeddings

    @embeddings.setter
    def embeddings(self, backend: Backend) -> None:
        with self._changed:
            self._embeddings = backend
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Listen on a free port of 127.0.0.1.

        Raises:
            RuntimeError: it has been started before; a stub model lives once.
        """
        if self._server is not None or self._closing:
            raise RuntimeError("this stub model has been started before")
        self._server = _Server(self)
        self._url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="stub-model", daemon=True
        ).start()

    def close(self) -> None:
        """Stop listening and release every answer that waits; does nothing the second time."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def behaviour(self, ask: Ask) -> Backend:
        """Count a question, wait while its backend is slow, and say how to treat it."""
        with self._changed:
            self._requests[ask] += 1
            self._changed.wait_for(
                lambda: self._closing or self._backend(ask) is not Backend.SLOW, timeout=self.slow_s
            )
            return Backend.UNAVAILABLE if self._closing else self._backend(ask)

    def _backend(self, ask: Ask) -> Backend:
        return self._embeddings if ask is Ask.EMBEDDING else self._chat


class _Message(BaseModel):
    role: str
    content: str | None = None


class _ChatRequest(BaseModel):
    messages: list[_Message]
    model: str = CHAT_MODEL
    stream: bool = False

    def prompt(self) -> Prompt:
        system = [message.content or "" for message in self.messages if message.role == "system"]
        user = [message.content or "" for message in self.messages if message.role == "user"]
        return Prompt(system="\n".join(system), user=user[-1] if user else "")


class _EmbeddingRequest(BaseModel):
    input: str | list[str]
    model: str = EMBEDDING_MODEL
    encoding_format: Literal["float", "base64"] = "float"


class _Server(socketserver.ThreadingTCPServer):
    """Threads per request; http.server's own class would ask DNS for the host's name."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128  # LightRAG opens many connections at once

    def __init__(self, model: StubModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hangs up or falls silent, killed by a test for example, is no news.
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request per connection: HTTP/1.0, so that no connection outlives a closed stub."""

    server: _Server
    timeout = _SILENT_CLIENT_S
    # Head and body are two writes: the second would wait for the client's delayed receipt, 40 ms.
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Stay silent: the demo's terminal belongs to its user."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            models = [{"id": name, "object": "model"} for name in (CHAT_MODEL, EMBEDDING_MODEL)]
            self._send({"object": "list", "data": models})
        else:
            self._send_error(HTTPStatus.NOT_FOUND, "invalid_request_error", "not_found")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        try:
            if self.path == "/v1/chat/completions":
                self._chat(_ChatRequest.model_validate_json(body))
            elif self.path == "/v1/embeddings":
                self._embed(_EmbeddingRequest.model_validate_json(body))
            else:
                self._send_error(HTTPStatus.NOT_FOUND, "invalid_request_error", "not_found")
        except ValidationError:
            self._send_error(HTTPStatus.BAD_REQUEST, "invalid_request_error", "bad_request")

    def _chat(self, request: _ChatRequest) -> None:
        prompt = request.prompt()
        if self._refused(prompt.ask):
            return
        text = reply(prompt)
        if request.stream:
            self._stream(request.model, text)
            return
        message = {"role": "assistant", "content": text}
        completion = _completion(request.model, "message", message, finish_reason="stop")
        self._send(completion | {"usage": _usage(prompt.system + prompt.user, text)})

    def _embed(self, request: _EmbeddingRequest) -> None:
        if self._refused(Ask.EMBEDDING):
            return
        texts = [request.input] if isinstance(request.input, str) else request.input
        vectors = [embed(text) for text in texts]
        encoded: list[list[float]] | list[str] = vectors
        if request.encoding_format == "base64":
            encoded = [
                base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
                for vector in vectors
            ]
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(encoded)
        ]
        usage = _usage("".join(texts), "")
        self._send({"object": "list", "model": request.model, "data": data, "usage": usage})

    def _refused(self, ask: Ask) -> bool:
        failure = _FAILURES.get(self.server.model.behaviour(ask))
        if failure is not None:
            self._send_error(*failure)
        return failure is not None

    def _stream(self, model: str, text: str) -> None:
        """Send server-sent events, a word each; the closed connection ends them."""
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        deltas = [{"content": piece} for piece in _PIECE.findall(text)]
        for delta in [{"role": "assistant", "content": ""}, *deltas]:
            self._send_event(json.dumps(_completion(model, "delta", delta)))
        self._send_event(json.dumps(_completion(model, "delta", {}, finish_reason="stop")))
        self._send_event("[DONE]")

    def _send_event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _send_error(self, status: HTTPStatus, kind: str, code: str) -> None:
        message = f"the stub model answers {status.value}"
        self._send({"error": {"message": message, "type": kind, "code": code}}, status)

    def _send(self, value: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _completion(
    model: str, part: str, said: dict[str, str], *, finish_reason: str | None = None
) -> dict[str, Any]:
    """Wrap a `message`, or the `delta` of a stream, as OpenAI does."""
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion" if part == "message" else "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, part: said, "finish_reason": finish_reason}],
    }


def _usage(asked: str, answered: str) -> dict[str, int]:
    """Count words as tokens: LightRAG only adds them up."""
    prompt, completion = len(asked.split()), len(answered.split())
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
