"""Texts, and waiting with a bound."""

from __future__ import annotations

import asyncio
from time import monotonic

from dsh_lightrag.demo.stub_model import CHAT_MODEL, EMBEDDING_MODEL
from dsh_lightrag.server.backend import Ask, NewDocument
from dsh_lightrag.server.core import CoreSettings
from dsh_lightrag.server.endpoint import Endpoint

WAIT_S = 60.0
MARIE = "Marie Curie discovered polonium together with Pierre Curie in Paris."
ADA = "Ada Lovelace wrote notes on the Analytical Engine of Charles Babbage in London."


def settings_over(folder, model, url="", embedding=EMBEDDING_MODEL):
    return CoreSettings(
        data=folder,
        chat=Endpoint(model.url, CHAT_MODEL),
        embedder=Endpoint(model.url, embedding),
        database_url=url,
        # A bag of words lies farther from every question than a real embedding does.
        cosine_threshold=0.1,
        database_connections=8,
    )


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
