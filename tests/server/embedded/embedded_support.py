"""Opening workspaces over the engine, waiting for them, and a provider that fails to order."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import anyio

from dsh_lightrag.server.backend import Ask, NewDocument, PageWanted
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings

CURIE = NewDocument(
    "Marie Curie discovered Polonium in Paris. Marie Curie worked with Pierre Curie.",
    "papers/curie.txt",
)
NILE = NewDocument("The Nile flows through Egypt. Cairo lies on the Nile.", "nile.txt")


@asynccontextmanager
async def opened(folder, name="team", **settings):
    """Open a workspace, made if need be, and close it and its keeper."""
    keeper = EmbeddedKeeper(EmbeddedSettings(folder, **{"embedder": "none", **settings}))
    await keeper.create(name)
    backend = await keeper.open(name)
    try:
        yield backend
    finally:
        await backend.close()
        await keeper.close()


async def settled(backend):
    """Wait until the workspace is not busy; return its state then."""
    with anyio.fail_after(30):
        while True:
            state = await backend.pipeline()
            if not (state.busy or state.pending_enqueues):
                return state
            await anyio.sleep(0.01)


async def until(condition):
    """Wait for an asynchronous condition, for at most thirty seconds."""
    with anyio.fail_after(30):
        while True:
            if await condition():
                return
            await anyio.sleep(0.01)


async def rows(backend, **wanted):
    """Return a page of the document list as a mapping from file to row."""
    page = await backend.page(PageWanted(**wanted))
    return {row.file_path: row for row in page.rows}


async def found(backend, question, mode="mix", **more):
    """Return the texts that a question finds."""
    evidence = await backend.evidence(Ask(question, mode=mode, **more))
    return [chunk.content for chunk in evidence.chunks]


if TYPE_CHECKING:
    from collections.abc import Mapping


class Reply(NamedTuple):
    """What a provider answers: bytes as they are, the connection closed behind them."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = MappingProxyType({})
    lies_about_length: bool = False


class Provider:
    """An endpoint that answers from a list, the last for ever, and keeps what it was asked."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []
        self.paths = []
        self.headers = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                provider.paths.append(self.path)
                provider.headers.append(dict(self.headers))
                provider.asked.append(json.loads(body))
                reply = provider.replies[0]
                if len(provider.replies) > 1:
                    del provider.replies[0]
                if callable(reply):
                    reply = reply(provider.asked[-1])
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.lies_about_length:
                    self.send_header("content-length", str(len(reply.body) + 10))
                self.end_headers()
                self.wfile.write(reply.body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def completion(text, tokens=7):
    """Return a whole answer."""
    message = {"role": "assistant", "content": text}
    value = {"choices": [{"message": message}], "usage": {"total_tokens": tokens}}
    return Reply(body=json.dumps(value).encode(), headers={"content-type": "application/json"})


def streamed(*pieces, done=True, more=b""):
    """Return a streamed answer."""
    lines = [
        json.dumps({"choices": [{"delta": {"content": piece}, "finish_reason": None}]})
        for piece in pieces
    ]
    body = "".join(f"data: {line}\n\n" for line in lines).encode()
    return Reply(
        body=body + more + (b"data: [DONE]\n\n" if done else b""),
        headers={"content-type": "text/event-stream"},
    )


def embeddings(request):
    """Answer each text with a vector that depends on its length."""
    data = [
        {"index": index, "embedding": [1.0, float(len(text)), 3.0]}
        for index, text in enumerate(request["input"])
    ]
    return Reply(body=json.dumps({"data": data}).encode())
