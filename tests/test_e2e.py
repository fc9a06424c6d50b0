"""The tools against the real LightRAG server 1.5.7, and against ours; only models are stubs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import anyio
import httpx
import pytest

import dsh_lightrag
from dsh_lightrag import Code, LightRagError, LightRagSettings, toolbox
from dsh_lightrag.demo import sample_documents
from dsh_lightrag.demo.server import LightRagServer
from dsh_lightrag.demo.stub_model import CHAT_MODEL, Backend
from dsh_lightrag.question import TOP_K
from dsh_lightrag.tools.insert import document_id
from dsh_lightrag.tools.query_data import QueryDataArgs
from dsh_lightrag.wire import MAX_QUERY_CHARS, PAGE_SIZES, Mode, Route, Status

WAIT_S = 60
# What the server takes as top_k at the most.
SERVERS_MOST_ITEMS = 1000
RAG_MODES = [mode for mode in get_args(Mode) if mode != "bypass"]
QUESTION = "Who discovered polonium and radium?"

# LightRAG waits up to 10 s between two tries of a failing backend.
pytestmark = pytest.mark.timeout(180)


class Base:
    """A server and how it is called."""

    def __init__(self, url, key):
        self.url = url
        self.key = key
        self.settings = LightRagSettings(
            endpoint=url, apiKey=key, evidence={"enabled": True}, writes={"enabled": True}
        )

    async def call(self, tool, arguments=None, **row):
        settings = LightRagSettings(
            **{**self.settings.model_dump(), "api_key": self.settings.api_key, **row}
        )
        with anyio.fail_after(WAIT_S):
            async with toolbox(settings) as tools:
                return await tools.call(f"dsh_lightrag_{tool}", arguments or {})

    async def failure(self, tool, arguments=None, **row):
        with pytest.raises(LightRagError) as caught:
            await self.call(tool, arguments, **row)
        assert not self.key or self.key not in str(caught.value)
        return caught.value

    async def documents(self, **arguments):
        listing = (await self.call("documents", arguments)).structured["documents"]
        return {document["id"]: document for document in listing}

    async def settled(self, *ids):
        """Wait until documents are processed or failed and the pipeline is idle."""

        async def known_and_idle():
            known = await self.documents()
            states = {known.get(one, {}).get("status") for one in ids}
            return states <= {"processed", "failed"} and not await self.is_busy() and known

        return await self.until(known_and_idle)

    async def until(self, condition):
        """Poll until a coroutine function returns something true, and return that."""
        with anyio.fail_after(WAIT_S):
            while not (met := await condition()):  # noqa: ASYNC110 - it happens in another process
                await anyio.sleep(0.1)
            return met

    async def is_busy(self):
        return (await self.call("status")).structured["pipelineBusy"]

    async def insert(self, source, text):
        result = await self.call("insert", {"source": source, "text": text})
        return result.structured["documentId"]


@contextmanager
def our_server(data, *flags, env=None):
    """Run `dsh-lightrag serve` as a process and yield its URL."""
    environment = {**os.environ, "PYTHONPATH": str(Path(dsh_lightrag.__file__).parents[1])}
    command = [sys.executable, "-m", "dsh_lightrag", "serve", "--data", str(data), "--port", "0"]
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [*command, *flags],
        env=environment | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process.stdout.readline().partition(" at ")[2].split()[0]
        finally:
            process.terminate()
            try:
                process.wait(WAIT_S)
            finally:
                process.kill()


def filled(base, inputs):
    """Put the sample documents into a base, and wait until they are processed."""
    base.inputs = inputs

    async def fill():
        base.ids = {
            name: await base.insert(name, text) for name, text in sample_documents().items()
        }
        await base.settled(*base.ids.values())

    asyncio.run(fill())
    return base


@pytest.fixture(scope="module")
def stock(lightrag_server, lightrag_key):
    """The keyed LightRAG server, with the sample documents in it."""
    return filled(Base(lightrag_server.url, lightrag_key), lightrag_server.input_dir)


@pytest.fixture(scope="module")
def ours(stub_model, lightrag_key, tmp_path_factory):
    """The embedded server, keyed, with the same chat model and the sample documents in it."""
    data = tmp_path_factory.mktemp("ours")
    flags = ("--api-key-env", "THE_KEY", "--chat-url", stub_model.url, "--chat-model", CHAT_MODEL)
    with our_server(data, *flags, env={"THE_KEY": lightrag_key}) as url:
        inputs = data / "inputs" / "default"
        inputs.mkdir(parents=True, exist_ok=True)
        yield filled(Base(url, lightrag_key), inputs)


@pytest.fixture(scope="module", params=["stock", "ours"])
def base(request):
    """Either server: what holds for one holds for the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module", params=["stock", "ours"])
def empty(request, stub_model, tmp_path_factory):
    """A second server, without a key and with nothing in it; ours without any model."""
    if request.param == "stock":
        with LightRagServer(stub_model) as server:
            yield Base(server.url, "")
    else:
        with our_server(tmp_path_factory.mktemp("empty"), "--embedder", "none") as url:
            yield Base(url, "")


@pytest.fixture
def model(stub_model):
    """The stub, to be made to fail by one test alone."""
    yield stub_model
    stub_model.chat = stub_model.embeddings = Backend.OK


# --- the main job -----------------------------------------------------------------------------


async def test_inserted_documents_are_listed_under_the_ids_that_were_told(base):
    known = await base.documents()
    assert set(base.ids.values()) <= set(known)
    for name, one in base.ids.items():
        assert known[one]["filePath"] == name
        assert known[one]["status"] == "processed"
        assert known[one]["chunksCount"] >= 1
        assert known[one]["errorMessage"] is None


async def test_status_tells_the_tested_versions_and_the_counts(base):
    outcome = await base.call("status")
    structured = outcome.structured
    assert (structured["coreVersion"], structured["apiVersion"]) == ("1.5.7", "0344")
    assert structured["statusCounts"]["processed"] >= len(base.ids)
    assert "countsError" not in structured
    assert "lets this deployment in" in outcome.text


@pytest.mark.parametrize("mode", RAG_MODES)
async def test_a_question_in_every_mode_is_answered_with_its_sources(base, mode):
    arguments = {"question": QUESTION, "mode": mode, "withContent": True}
    structured = (await base.call("query", arguments)).structured
    assert structured["llmGenerated"] is True
    assert structured["answer"]
    assert structured["referenceCount"] == len(structured["references"]) > 0
    paths = [source["filePath"] for source in structured["references"]]
    assert set(paths) <= set(base.ids)
    assert "marie-curie.md" in paths
    samples = "".join(sample_documents().values())
    for source in structured["references"]:
        assert source["content"]
        assert source["content"][0][:40] in samples


async def test_bypass_asks_the_model_alone(base):
    structured = (await base.call("query", {"question": "Hi", "mode": "bypass"})).structured
    assert (structured["llmGenerated"], structured["references"]) == (True, [])


@pytest.mark.parametrize("mode", RAG_MODES)
async def test_evidence_in_every_mode(base, mode):
    arguments = {"query": QUESTION, "mode": mode, "ll_keywords": ["Marie Curie"], "top_k": 10}
    structured = (await base.call("query_data", arguments)).structured
    assert structured["mode"] == mode
    assert structured["chunkCount"] == len(structured["chunks"]) > 0
    assert bool(structured["entities"]) == (mode != "naive")
    owners = {chunk["chunk_id"].partition("-chunk-")[0] for chunk in structured["chunks"]}
    assert owners <= set(base.ids.values())


async def test_evidence_of_bypass_is_nothing_and_said_so(base):
    outcome = await base.call("query_data", {"query": QUESTION, "mode": "bypass"})
    assert outcome.structured["chunkCount"] == 0
    assert "retrieves nothing" in outcome.text


async def test_every_argument_of_query_data_is_accepted_by_the_server(base):
    arguments = {
        "query": QUESTION,
        "mode": "mix",
        "top_k": 200,
        "chunk_top_k": 200,
        "hl_keywords": ["x" * 512] * 64,
        "ll_keywords": ["Marie Curie"],
        "user_prompt": "p" * 60_000,
        "enable_rerank": False,
        "response_type": "r" * 256,
        "max_total_tokens": 1_000_000,
        "max_entity_tokens": 1,
        "max_relation_tokens": 1_000_000,
        "conversation_history": [{"role": "user", "content": "Hello."}] * 128,
    }
    assert (await base.call("query_data", arguments)).structured["chunkCount"] > 0


async def test_a_scan_takes_in_a_new_file(base):
    await base.settled()
    name = "hypatia.md"
    text = "Hypatia of Alexandria taught Astronomy. Theon of Alexandria was her father."
    (base.inputs / name).write_text(text, encoding="utf-8")
    outcome = await base.call("scan")
    assert outcome.structured["status"] == "scanning_started"
    known = await base.settled(document_id(name))
    assert known[document_id(name)]["status"] == "processed"
    assert known[document_id(name)]["filePath"] == name


async def test_a_deleted_document_is_gone_afterwards(base):
    one = await base.insert("short-lived.md", "Ephemera of Delos lasted a day.")
    await base.settled(one)
    outcome = await base.call("delete", {"documentId": one})
    assert outcome.structured["status"] == "deletion_started"
    assert outcome.structured["docId"] == one

    async def gone():
        return one not in await base.documents()

    await base.until(gone)
    await base.settled()


async def test_an_unknown_id_is_accepted_by_the_stock_server_and_refused_by_ours(stock, ours):
    await stock.settled()
    outcome = await stock.call("delete", {"documentId": "doc-that-never-was"})
    assert outcome.structured["status"] == "deletion_started"
    await stock.settled()
    error = await ours.failure("delete", {"documentId": "doc-that-never-was"})
    assert error.code is Code.NOT_FOUND


async def test_a_missing_source_is_filed_under_the_name_that_was_told(base):
    result = await base.call("insert", {"text": "Anonymous wrote the Nameless Tract."})
    one = result.structured["documentId"]
    known = await base.settled(one)
    assert known[one]["filePath"] == result.structured["source"]
    assert known[one]["trackId"] == result.structured["trackId"]


async def test_a_listing_by_status_and_limit(base):
    structured = (await base.call("documents", {"status": "PROCESSED", "limit": 2})).structured
    assert structured["count"] == 2
    assert structured["totalCount"] == structured["statusCounts"]["processed"] > 2
    assert structured["truncated"] is True
    assert {document["status"] for document in structured["documents"]} == {"processed"}


# --- the error paths --------------------------------------------------------------------------


async def test_a_wrong_key_is_unauthorized_and_status_still_tells_the_health(base):
    for tool, arguments in (
        ("query", {"question": QUESTION}),
        ("documents", {}),
        ("scan", {}),
        ("insert", {"text": "x", "source": "never.md"}),
    ):
        for key in ("wrong-key", ""):
            error = await base.failure(tool, arguments, api_key=key)
            assert (error.code, error.status) == (Code.UNAUTHORIZED, 403)
    outcome = await base.call("status", api_key="wrong-key")
    assert outcome.structured["status"] == "healthy"
    assert outcome.structured["countsError"]["code"] == "unauthorized"
    assert "wrong-key" not in outcome.text


@pytest.mark.parametrize("backend", ["chat", "embeddings"])
async def test_a_model_backend_that_is_down_is_said_to_have_failed(stock, model, backend):
    setattr(model, backend, Backend.UNAUTHORIZED)
    question = f"Which language is on the Rosetta Stone while {backend} is down?"
    outcome = await stock.call("query", {"question": question, "mode": "mix"})
    assert outcome.structured["llmGenerated"] is False
    assert "model backend failed" in outcome.text
    error = await stock.failure("query_data", {"query": question, "mode": "mix"})
    assert (error.code, error.status) == (Code.SERVER_ERROR, 500)
    assert "error_id" in error.message


async def test_a_source_that_exists_is_a_conflict(base):
    arguments = {"text": "Another text.", "source": "elsewhere/marie-curie.md"}
    error = await base.failure("insert", arguments)
    assert (error.code, error.status) == (Code.CONFLICT, 409)
    assert "marie-curie.md" in error.message


async def test_the_same_text_under_another_name_fails_with_a_reason(base):
    text = sample_documents()["marie-curie.md"]
    await base.call("insert", {"text": text, "source": "copy-of-marie.md"})
    failed = await base.until(lambda: base.documents(status="failed"))
    (document,) = [one for one in failed.values() if one["filePath"] == "copy-of-marie.md"]
    assert "Identical content" in document["errorMessage"]


async def test_while_the_pipeline_is_busy_scan_and_delete_are_refused_and_questions_are_not(
    stock, model
):
    await stock.settled()
    model.chat = Backend.SLOW
    one = await stock.insert("slow.md", "Slowness of Molasses is a proverb.")
    await stock.until(stock.is_busy)
    assert (await stock.failure("scan")).code is Code.BUSY
    error = await stock.failure("delete", {"documentId": stock.ids["marie-curie.md"]})
    assert (error.code, error.status) == (Code.BUSY, 200)
    arguments = {"query": QUESTION, "mode": "naive"}
    assert (await stock.call("query_data", arguments)).structured["chunkCount"] > 0
    model.chat = Backend.OK
    known = await stock.settled(one)
    assert known[one]["status"] == "processed"
    assert stock.ids["marie-curie.md"] in known


@pytest.mark.parametrize("mode", RAG_MODES)
async def test_an_empty_index_is_said_to_have_nothing(empty, mode):
    outcome = await empty.call("query", {"question": QUESTION, "mode": mode})
    assert outcome.structured["llmGenerated"] is False
    assert "index has nothing" in outcome.text
    outcome = await empty.call("query_data", {"query": QUESTION, "mode": mode})
    assert "Nothing was found" in outcome.text


async def test_an_empty_base_is_said_to_be_one(empty):
    assert "nothing is ingested" in (await empty.call("status")).text
    structured = (await empty.call("documents")).structured
    assert (structured["count"], structured["truncated"]) == (0, False)


async def test_against_a_stock_server_a_workspace_is_an_error(stock):
    for tool in ("documents", "scan"):
        assert (await stock.failure(tool, workspace="team-a")).code is Code.BAD_RESPONSE


# --- our constants are the server's -----------------------------------------------------------


@pytest.fixture(scope="module")
def openapi(stock):
    return published(stock)


def published(base):
    return httpx.get(f"{base.url}/openapi.json", trust_env=False).json()


def body_schema(openapi, route):
    operation = openapi["paths"][route.path][route.method.lower()]
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return openapi["components"]["schemas"][reference.rpartition("/")[2]]["properties"]


@pytest.mark.parametrize(
    "route", [route for route in Route if not (route.gateway or route is Route.OPENAPI)]
)
def test_every_route_of_ours_is_one_of_the_servers(base, route):
    assert route.method.lower() in published(base)["paths"][route.path]


def test_names_modes_and_limits_of_a_retrieval_are_the_servers(openapi):
    fields = body_schema(openapi, Route.QUERY_DATA)
    assert set(QueryDataArgs.model_fields) <= set(fields)
    assert set(fields["mode"]["enum"]) == set(get_args(Mode))
    assert fields["query"]["maxLength"] == MAX_QUERY_CHARS
    assert f'"maximum": {SERVERS_MOST_ITEMS}' in json.dumps(fields["top_k"])
    assert TOP_K.high <= SERVERS_MOST_ITEMS


def test_pages_and_states_are_the_servers(openapi):
    fields = body_schema(openapi, Route.DOCUMENTS)
    assert (fields["page_size"]["minimum"], fields["page_size"]["maximum"]) == PAGE_SIZES
    states = openapi["components"]["schemas"]["DocStatus"]["enum"]
    assert set(states) == set(get_args(Status))
