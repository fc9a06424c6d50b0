"""The stub's two models as the core calls them, and waiting with a bound."""

from __future__ import annotations

import asyncio
import json
from time import monotonic

import httpx
import numpy as np

from dsh_lightrag.demo.stub_model import CHAT_MODEL, EMBEDDING_MODEL
from dsh_lightrag.demo.stub_replies import DIMENSIONS
from dsh_lightrag.server.backend import Ask, ModelFailedError, NewDocument
from dsh_lightrag.server.core import ChatReply

WAIT_S = 60.0
MARIE = "Marie Curie discovered polonium together with Pierre Curie in Paris."
ADA = "Ada Lovelace wrote notes on the Analytical Engine of Charles Babbage in London."


class Chat:
    """The stub's chat model; a server that answers with an error is a failure."""

    name = CHAT_MODEL

    def __init__(self, stub):
        self.stub = stub
        self.now = self.most = 0  # how many calls run, and ran at once

    async def chat(self, turns, *, as_json):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            reply = await _post(self.stub.url + "/chat/completions", _asked(turns))
        finally:
            self.now -= 1
        return ChatReply(reply["choices"][0]["message"]["content"], reply["usage"]["total_tokens"])

    async def stream(self, turns):
        body = _asked(turns) | {"stream": True}
        async with (
            httpx.AsyncClient(timeout=WAIT_S, trust_env=False) as client,
            client.stream("POST", self.stub.url + "/chat/completions", json=body) as reply,
        ):
            if reply.is_error:
                raise ModelFailedError(f"The chat model answered {reply.status_code}.")
            async for line in reply.aiter_lines():
                data = line.removeprefix("data: ")
                if line and data != "[DONE]":
                    for choice in json.loads(data)["choices"]:
                        yield choice["delta"].get("content") or ""


class Embedding:
    """The stub's embedding model."""

    name = EMBEDDING_MODEL
    dimensions = DIMENSIONS

    def __init__(self, stub):
        self.stub = stub

    async def embed(self, texts, *, query):
        body = {"model": EMBEDDING_MODEL, "input": list(texts)}
        reply = await _post(self.stub.url + "/embeddings", body)
        return np.array([row["embedding"] for row in reply["data"]], dtype=np.float32)


def _asked(turns):
    return {
        "model": CHAT_MODEL,
        "messages": [{"role": t.role, "content": t.content} for t in turns],
    }


async def _post(url, body):
    async with httpx.AsyncClient(timeout=WAIT_S, trust_env=False) as client:
        reply = await client.post(url, json=body)
    if reply.is_error:
        raise ModelFailedError(f"The model answered {reply.status_code}.")
    return reply.json()


async def eventually(condition):
    deadline = monotonic() + WAIT_S
    while not await condition():
        assert monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


async def idle(backend):
    async def is_idle():
        return not (await backend.pipeline()).busy

    await eventually(is_idle)


async def put(backend, **texts):
    """File texts under their names with a `.md` and wait until they are processed."""
    documents = [NewDocument(text, f"{name}.md") for name, text in texts.items()]
    await backend.insert(documents, "track-1")
    await idle(backend)
    for name in texts:
        row = await backend.named(f"{name}.md")
        assert (row.status, row.error_msg) == ("processed", None)


def ask(query, **fields):
    return Ask(query=query, **fields)


def files_of(evidence):
    return {chunk.file_path for chunk in evidence.chunks}
