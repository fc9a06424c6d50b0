"""Answers and their failures: streams that say how they ended, models that are down or absent."""

from __future__ import annotations

import contextlib
import json

import httpx
import pytest
from faltering_model import SECRET, FalteringModel
from our_server import in_process, settled

from dsh_lightrag.demo.stub_model import Backend, StubModel
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.endpoint import Endpoint
from dsh_lightrag.server.failures import LastResort
from dsh_lightrag.server.settings import ServerSettings

QUESTION = {"query": "Who discovered Polonium?"}
CURIE = {"text": "Marie Curie discovered Polonium in Paris.", "file_source": "curie.txt"}


@contextlib.asynccontextmanager
async def answering(tmp_path, url, **endpoint):
    """Yield a client of a server with a chat model and one document."""
    chat = Endpoint(url, "stub-chat", attempts=1, timeout_s=20, **endpoint)
    keeper = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none", chat=chat))
    async with in_process(keeper, ServerSettings(data=tmp_path)) as client:
        assert (await client.post("/documents/text", json=CURIE)).status_code == 200
        yield client


def lines_of(answer):
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


# --- without a chat model ---------------------------------------------------------------------


async def test_without_a_chat_model_the_best_passages_are_quoted(client):
    await client.post("/documents/text", json=CURIE)
    await settled(client)
    answer = (await client.post("/query", json=QUESTION)).json()
    assert answer["llm_generated"] is False
    assert CURIE["text"] in answer["response"]
    assert [one["file_path"] for one in answer["references"]] == ["curie.txt"]
    (line,) = lines_of(await client.post("/query/stream", json=QUESTION))
    assert (line["llm_generated"], line["response"]) == (False, answer["response"])


async def test_an_empty_base_has_no_answer_and_says_so_as_lightrag_does(client):
    answer = (await client.post("/query", json=QUESTION)).json()
    assert answer["response"].endswith("[no-context]")
    assert (answer["references"], answer["llm_generated"]) == ([], False)
    data = (await client.post("/query/data", json=QUESTION)).json()
    assert data["metadata"] == {"failure_reason": "no_results", "mode": "mix"}


@pytest.mark.parametrize("path", ["/query", "/query/stream"])
async def test_bypass_without_a_chat_model_is_refused(client, path):
    answer = await client.post(path, json={"query": "Hello", "mode": "bypass"})
    assert (answer.status_code, answer.json()["reason"]) == (400, "model_missing")
    assert answer.json()["detail"].startswith("no chat model configured")


# --- with one ---------------------------------------------------------------------------------


async def test_a_whole_stream_brings_references_first_and_no_error(tmp_path):
    with FalteringModel("whole") as model:
        async with answering(tmp_path, model.url) as client:
            first, *rest = lines_of(await client.post("/query/stream", json=QUESTION))
            assert [one["file_path"] for one in first["references"]] == ["curie.txt"]
            assert "".join(line["response"] for line in rest) == "It was "
            plain = {**QUESTION, "include_references": False}
            lines = lines_of(await client.post("/query/stream", json=plain))
            assert [sorted(line) for line in lines] == [["response"]] * len(lines)
            told = {**QUESTION, "include_progress": True}
            lines = lines_of(await client.post("/query/stream", json=told))
            assert "progress" in lines[0]
            assert lines[-1]["response_time"] >= 0


@pytest.mark.parametrize("how", ["cut", "error"])
@pytest.mark.parametrize("progress", [False, True])
async def test_a_stream_that_its_model_cuts_short_says_so(tmp_path, how, progress, capsys):
    with FalteringModel(how) as model:
        async with answering(tmp_path, model.url) as client:
            asked = {**QUESTION, "include_progress": progress}
            answer = await client.post("/query/stream", json=asked)
    lines = [line for line in lines_of(answer) if not {"progress", "response_time"} & set(line)]
    assert "".join(line.get("response", "") for line in lines).startswith("It ")
    assert list(lines[-1]) == ["error"]
    assert SECRET not in answer.text
    error_id = lines[-1]["error"].rpartition("(error_id: ")[2].rstrip(")")
    assert len(error_id) == 12
    assert error_id in capsys.readouterr().err


async def test_a_model_that_is_down_is_an_error_and_never_an_empty_answer(tmp_path, capsys):
    with StubModel() as model:
        model.chat = Backend.UNAVAILABLE
        async with answering(tmp_path, model.url) as client:
            for path in ("/query", "/query/stream"):
                answer = await client.post(path, json=QUESTION)
                assert (path, answer.status_code) == (path, 502)
                body = answer.json()
                assert body["reason"] == "model_failed"
                assert f"(error_id: {body['error_id']})" in body["detail"]
                assert body["error_id"] in capsys.readouterr().err
            # Retrieval needs no chat model.
            data = await client.post("/query/data", json=QUESTION)
            assert data.json()["data"]["chunks"]


async def test_an_answer_is_made_anew_when_its_base_has_changed(tmp_path):
    with StubModel() as model:
        async with answering(tmp_path, model.url) as client:
            await settled(client)
            first = (await client.post("/query", json=QUESTION)).json()
            more = {"text": "Polonium was isolated later.", "file_source": "later.txt"}
            await client.post("/documents/text", json=more)
            await settled(client)
            second = (await client.post("/query", json=QUESTION)).json()
    assert first["llm_generated"] is second["llm_generated"] is True
    assert [one["file_path"] for one in first["references"]] == ["curie.txt"]
    assert sorted(one["file_path"] for one in second["references"]) == ["curie.txt", "later.txt"]


# --- faults -----------------------------------------------------------------------------------


async def test_a_refused_input_is_repeated_nowhere(client):
    secret = "the-secret-of-the-request"
    for path, body in (
        ("/query", {"query": secret, "top_k": secret, secret: 1}),
        ("/query/data", {"query": secret * 4000}),
        ("/documents/text", {"text": secret, "file_source": f"{secret}\u0000"}),
        ("/documents/paginated", {"status_filter": secret}),
    ):
        answer = await client.post(path, json=body)
        assert answer.status_code in (400, 422)
        assert secret not in answer.text


async def test_a_base_that_cannot_be_opened_is_told_without_its_path(client, tmp_path, capsys):
    await client.put("/workspaces/broken")
    (tmp_path / "bases" / "broken" / "base.sqlite").mkdir(parents=True)
    headers = {"LIGHTRAG-WORKSPACE": "broken"}
    answer = await client.get("/documents/status_counts", headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (500, "workspace_broken")
    assert str(tmp_path) not in answer.text
    (failed,) = failures(capsys)
    assert failed["error_id"] in answer.json()["detail"]
    assert failed["route"] == "/documents/status_counts"


async def test_a_bug_is_answered_with_an_id_and_without_its_words(capsys):
    async def broken(_scope, _receive, _send):
        raise RuntimeError("at /srv/secret/place")

    transport = httpx.ASGITransport(LastResort(broken))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/secret-path")
    (failed,) = failures(capsys)
    assert answer.status_code == 500
    assert answer.json() == {"detail": f"Internal server error (error_id: {failed['error_id']})"}
    assert (failed["error"], failed["route"]) == ("RuntimeError", None)
    assert "secret" not in json.dumps(failed)


def failures(capsys):
    """Return the records of failed requests."""
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [one for one in records if one["event"] == "request_failed"]
