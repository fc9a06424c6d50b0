"""The whole way: the real harness, the real LightRAG server, and a document between them."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from dsh_lightrag import LightRagSettings, toolbox
from dsh_lightrag.demo import sample_documents
from dsh_lightrag.demo.server import LightRagServer
from dsh_lightrag.demo.stub_model import StubModel
from faces.server import KEY

from .scripted_model import Call, ScriptedModel
from .test_dsh_tools import PREFIX

WAIT_S = 60
SAMPLES = {"mcp": "ada-lovelace.md", "bare": "marie-curie.md"}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def real():
    """A server of its own: other tests count the documents of theirs."""
    with StubModel() as model, LightRagServer(model, api_key=KEY) as running:
        yield running


async def processed(settings, source):
    """Wait until a document can be asked about."""
    async with toolbox(settings) as tools:
        with anyio.fail_after(WAIT_S):
            while True:
                arguments = {"status": "processed"}
                listed = (await tools.call("dsh_lightrag_documents", arguments)).structured
                if source in [one["filePath"] for one in listed["documents"]]:
                    return
                await anyio.sleep(0.1)  # it happens in another process


@pytest.mark.parametrize("mode", PREFIX)
def test_a_document_goes_in_and_is_asked_about(mode, home, patch, real):
    prefix, source = PREFIX[mode], SAMPLES[mode]
    text = sample_documents()[source]
    settings = LightRagSettings(endpoint=real.url, apiKey=KEY)

    def ask():
        asyncio.run(processed(settings, source))
        question = {"question": text.splitlines()[0], "withContent": True}
        return [
            Call(f"{prefix}dsh_lightrag_query", question),
            Call(f"{prefix}dsh_lightrag_documents"),
            Call(f"{prefix}dsh_lightrag_status"),
        ]

    insert = Call(f"{prefix}dsh_lightrag_insert", {"text": text, "source": source})
    with ScriptedModel([insert], ask, [insert]) as model:
        home.run(model, patch("--mode", mode, "--enable", "writes", endpoint=real.url))
    inserted, answer, listing, status, again = model.said
    assert [said.is_error for said in model.said] == [False] * 4 + [True]
    assert source in inserted.text
    assert source in answer.text
    assert source in listing.text
    assert "1.5.7" in status.text
    assert "lets this deployment in" in status.text
    assert again.text.startswith("Error: dsh-lightrag (conflict): ")
