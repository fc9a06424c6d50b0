from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import anyio
import pytest
from langchain_core.documents import Document
from llama_index.core.schema import QueryBundle
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from dsh_lightrag import Code, ConfigurationError, LightRagError, LightRagSettings
from dsh_lightrag.prompt import KnowledgeMiddleware
from dsh_lightrag.prompt.langchain_retriever import LightRagRetriever as LangChainRetriever
from dsh_lightrag.prompt.llama_index_retriever import LightRagRetriever as LlamaIndexRetriever
from dsh_lightrag.prompt.pydantic_ai_processor import augmented

from .support import CONTEXT, TASK, environment, says, silent

CHUNKS = [
    {"content": f"passage {i}", "file_path": f"{i}.md", "chunk_id": f"doc-{i}-chunk-000"}
    for i in range(3)
]
NOTHING = {
    "status": "failure",
    "message": "Query returned no results",
    "data": {},
    "metadata": {"failure_reason": "no_results"},
}
FOUND = {"status": "success", "data": {"chunks": CHUNKS}, "metadata": {"query_mode": "mix"}}
EXPECTED = [
    (f"passage {i}", {"file_path": f"{i}.md", "chunk_id": f"doc-{i}-chunk-000", "rank": i + 1})
    for i in range(3)
]


def settings(server, **query):
    return LightRagSettings(endpoint=server.url, query={"topK": 5, **query}, timeoutMs=5000)


def langchain(settings):
    retriever = LangChainRetriever(settings=settings)

    def read(documents):
        assert all(isinstance(document, Document) for document in documents)
        return [(document.page_content, document.metadata) for document in documents]

    async def later(question):
        return read(await retriever.ainvoke(question))

    return lambda question: read(retriever.invoke(question)), later


def llama_index(settings):
    retriever = LlamaIndexRetriever(settings)

    def read(nodes):
        assert all(node.score is None for node in nodes)
        return [(node.get_content(), node.metadata) for node in nodes]

    async def later(question):
        return read(await retriever.aretrieve(QueryBundle(question)))

    return lambda question: read(retriever.retrieve(question)), later


BOTH = pytest.mark.parametrize("framework", [langchain, llama_index])


@BOTH
async def test_passages_come_with_path_chunk_id_and_rank(framework, server):
    server.answer = says(FOUND)
    now, later = framework(settings(server))
    assert now(TASK) == EXPECTED  # inside a running loop
    assert await later(TASK) == EXPECTED
    assert server.requests[0].startswith(b"POST /query/data ")
    assert server.bodies[0] | {"query": TASK, "mode": "mix", "top_k": 5} == server.bodies[0]


@BOTH
def test_it_works_without_a_loop(framework, server):
    server.answer = says(FOUND)
    assert framework(settings(server))[0](TASK) == EXPECTED


@BOTH
async def test_nothing_found_is_an_empty_list_and_a_failure_never_is(framework, server):
    now, later = framework(settings(server))
    server.answer = says(NOTHING)
    assert now(TASK) == await later(TASK) == []
    server.answer = says({"detail": "Internal server error (error_id: 1)"}, 500)
    with pytest.raises(LightRagError) as caught:
        now(TASK)
    assert caught.value.code is Code.SERVER_ERROR
    with pytest.raises(LightRagError):
        await later(TASK)
    with pytest.raises(LightRagError, match="blank"):
        now("  ")


@BOTH
def test_all_passages_together_stay_under_the_deployments_cap(framework, server):
    long = [{**chunk, "content": "x" * 700} for chunk in CHUNKS]
    server.answer = says({**FOUND, "data": {"chunks": long}})
    texts = [text for text, _ in framework(settings(server, maxContentBytes=1024))[0](TASK)]
    assert [len(text.encode()) for text in texts] == [700, 324]


@BOTH
def test_a_mode_that_retrieves_nothing_is_refused(framework, server):
    with pytest.raises(ConfigurationError, match="retrieves nothing"):
        framework(settings(server, mode="bypass"))


@BOTH
async def test_each_call_leaves_one_record_of_sizes_counts_and_codes(framework, server, capsys):
    now, later = framework(settings(server))
    server.answer = says(FOUND)
    now(TASK)
    server.answer = says({"detail": f"CANARY {TASK}"}, 401)
    with pytest.raises(LightRagError):
        await later(TASK)
    server.answer = silent
    server.arrived.clear()
    task = asyncio.create_task(later(TASK))
    with anyio.fail_after(5):
        assert await anyio.to_thread.run_sync(server.arrived.wait, 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    said = capsys.readouterr().err
    records = [json.loads(line) for line in said.splitlines()]
    assert [(record["event"], record["outcome"]) for record in records] == [
        ("retriever_call", "ok"),
        ("retriever_call", "unauthorized"),
        ("retriever_call", "cancelled"),
    ]
    assert (records[0]["passages"], records[0]["text_bytes"]) == (3, len("passage 0") * 3)
    assert records[1]["status"] == 401
    assert not any(text in said for text in ("CANARY", TASK, "passage 0", "0.md"))


# --- Pydantic AI ------------------------------------------------------------------------------


def agent_over(server, respond, **row):
    middleware = KnowledgeMiddleware({"endpoint": server.url, "label": "L", **row})
    return Agent(FunctionModel(respond), capabilities=[ProcessHistory(augmented(middleware))])


def prompts_of(messages):
    return [
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


async def test_the_last_user_message_is_augmented_once_and_stays_the_users(server):
    seen = []

    def respond(messages, _info):
        seen.append(prompts_of(messages))
        if len(seen) == 1:
            return ModelResponse(parts=[ToolCallPart("look", {})])
        return ModelResponse(parts=[TextPart("done")])

    agent = agent_over(server, respond)
    agent.tool_plain(lambda: "nothing", name="look")
    first = await agent.run(TASK)
    assert seen == [[f"[L]\n{CONTEXT}\n\n{TASK}"]] * 2
    await agent.run("And radium?", message_history=first.all_messages())
    assert seen[-1] == [f"[L]\n{CONTEXT}\n\n{TASK}", f"[L]\n{CONTEXT}\n\nAnd radium?"]
    assert [body["query"] for body in server.bodies] == [TASK, "And radium?"]


async def test_a_message_of_several_parts_keeps_them_as_and_where_they_are(server):
    image = BinaryContent(b"png", media_type="image/png")
    seen = []

    def respond(messages, _info):
        seen.extend(prompts_of(messages))
        return ModelResponse(parts=[TextPart("done")])

    await agent_over(server, respond).run(["Who is", image, "this?"])
    assert seen == [[f"[L]\n{CONTEXT}\n\n", "Who is", image, "this?"]]
    assert server.bodies[0]["query"] == "Who is\n\nthis?"


async def test_the_policies_hold_there_too(server):
    server.answer = says({}, 500)

    def respond(messages, _info):
        return ModelResponse(parts=[TextPart(prompts_of(messages)[-1])])

    assert (await agent_over(server, respond).run(TASK)).output == TASK
    with pytest.raises(LightRagError):
        await agent_over(server, respond, on_error="fail").run(TASK)


async def test_a_history_without_a_new_user_message_passes_as_it_is(server):
    process = augmented(KnowledgeMiddleware({"endpoint": server.url}))
    for history in ([], [ModelResponse(parts=[TextPart("x")])], [ModelRequest(parts=[])]):
        assert await process(history) == history
    assert server.requests == []


async def test_a_message_that_is_sent_again_is_not_augmented_again(server):
    process = augmented(KnowledgeMiddleware({"endpoint": server.url}))
    once = await process([ModelRequest(parts=[UserPromptPart(TASK)], metadata={"mine": 1})])
    assert await process(once) == once
    assert once[0].metadata["mine"] == 1
    assert len(server.requests) == 1


async def test_of_several_prompts_in_one_message_the_last_is_augmented(server):
    process = augmented(KnowledgeMiddleware({"endpoint": server.url, "label": "L"}))
    messages = await process([ModelRequest(parts=[UserPromptPart("First."), UserPromptPart(TASK)])])
    assert prompts_of(messages) == ["First.", f"[L]\n{CONTEXT}\n\n{TASK}"]


# --- what is not installed --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("langchain_retriever", "langchain_core", "langchain"),
        ("llama_index_retriever", "llama_index.core", "llama-index"),
        ("pydantic_ai_processor", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_without_the_framework_the_extra_is_named(module, package, extra):
    script = f"import sys; sys.modules[{package!r}] = None; import dsh_lightrag.prompt.{module}"
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert f"pip install 'dsh-lightrag[{extra}]'" in ended.stderr


def test_the_room_itself_loads_nothing_heavy():
    heavy = ["langchain_core", "llama_index", "pydantic_ai", "ruamel", "typer", "httpx"]
    script = (
        "import sys, dsh_lightrag.prompt.pipeline, dsh_lightrag.prompt.passages; "
        f"print(*[name for name in {heavy} if name in sys.modules])"
    )
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    assert ended.stdout.split() == []
