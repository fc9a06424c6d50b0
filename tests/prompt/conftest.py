"""Rules for the tests of the prompt room: asyncio, and nothing of this machine takes part."""

from __future__ import annotations

import asyncio
import os

import pytest

from dsh_lightrag import LightRagSettings, toolbox
from dsh_lightrag.demo import sample_documents
from dsh_lightrag.demo.server import LightRagServer
from dsh_lightrag.demo.stub_model import StubModel

from .support import KEY, RawServer


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No proxy, no LIGHTRAG_ variable and no remembered trust of the machine takes part."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.upper().startswith("LIGHTRAG_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def server():
    with RawServer() as running:
        yield running


@pytest.fixture(scope="session")
def model():
    with StubModel() as stub:
        yield stub


@pytest.fixture(scope="session")
def lightrag(model):
    """The real LightRAG server, keyed, with the sample documents processed."""
    with LightRagServer(model, api_key=KEY) as running:
        asyncio.run(_fill(running.url))
        yield running


async def _fill(url):
    settings = LightRagSettings(endpoint=url, apiKey=KEY, writes={"enabled": True})
    documents = sample_documents()
    async with toolbox(settings) as tools, asyncio.timeout(100):
        for source, text in documents.items():
            await tools.call("dsh_lightrag_insert", {"text": text, "source": source})
        done = 0
        while done < len(documents):
            await asyncio.sleep(0.1)
            counts = (await tools.call("dsh_lightrag_status")).structured["statusCounts"]
            assert not counts.get("failed")
            done = counts.get("processed", 0)
