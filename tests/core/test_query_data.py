"""dsh_lightrag_query_data: LightRAG's own vocabulary in, evidence out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lightrag import Code

from .support import body_of, call, call_over, captured, failure, reply, sent, serve

QUERY = "Who discovered Polonium?"
EVERYTHING = {
    "query": QUERY,
    "mode": "local",
    "top_k": 7,
    "chunk_top_k": 3,
    "hl_keywords": ["discovery"],
    "ll_keywords": ["Polonium", "Curie"],
    "user_prompt": "Be brief.",
    "enable_rerank": False,
    "response_type": "Bullet Points",
    "max_total_tokens": 1_000_000,
    "max_entity_tokens": 1,
    "max_relation_tokens": 2,
    "conversation_history": [{"role": "user", "content": "Hello."}],
}


async def asked(httpx_mock, arguments, **row):
    httpx_mock.add_response(json=body_of("data_mix"))
    await call("query_data", arguments, **row)
    return sent(httpx_mock.get_requests()[-1])


async def found(body, **row):
    return await call_over(lambda _: reply(body), "query_data", {"query": QUERY}, **row)


# --- what is sent -----------------------------------------------------------------------------


async def test_every_argument_is_sent_under_lightrags_name(httpx_mock):
    assert await asked(httpx_mock, EVERYTHING) == EVERYTHING | {"include_references": True}


async def test_what_is_absent_is_not_sent_and_references_always_are_asked_for(httpx_mock):
    body = await asked(httpx_mock, {"query": QUERY}, query={"mode": "naive", "topK": 9})
    assert body == {"query": QUERY, "mode": "naive", "top_k": 9, "include_references": True}
    nulls = dict.fromkeys(EVERYTHING) | {"query": QUERY}
    assert await asked(httpx_mock, nulls) == body | {"mode": "mix", "top_k": 20}


@pytest.mark.parametrize(
    ("given_k", "meant"),
    [(0, 1), (-9, 1), (200, 200), (201, 200), pytest.param(10**400, 200, id="huge")],
)
async def test_top_k_and_chunk_top_k_are_clamped(given_k, meant, httpx_mock):
    body = await asked(httpx_mock, {"query": QUERY, "top_k": given_k, "chunk_top_k": given_k})
    assert (body["top_k"], body["chunk_top_k"]) == (meant, meant)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"query": " "}, "query"),
        ({"query": "bad \ud800 text"}, "query"),
        ({"ll_keywords": ["\ud800"]}, "ll_keywords"),
        ({"user_prompt": "\ud800"}, "user_prompt"),
        ({"query": "ab"}, "query"),
        ({"query": "電"}, "query"),
        ({"query": "x" * 65_537}, "query"),
        ({"mode": "deep"}, "mode"),
        ({"hl_keywords": "one"}, "hl_keywords"),
        ({"hl_keywords": ["x"] * 65}, "hl_keywords"),
        ({"ll_keywords": ["x" * 513]}, "ll_keywords"),
        ({"ll_keywords": [5]}, "ll_keywords"),
        ({"user_prompt": "x" * 65_537}, "user_prompt"),
        ({"enable_rerank": "perhaps"}, "enable_rerank"),
        ({"response_type": ""}, "response_type"),
        ({"response_type": "x" * 257}, "response_type"),
        ({"max_total_tokens": 0}, "max_total_tokens"),
        ({"max_entity_tokens": 1_000_001}, "max_entity_tokens"),
        ({"max_relation_tokens": -1}, "max_relation_tokens"),
        ({"conversation_history": [{"role": "user"}]}, "content"),
        ({"conversation_history": [{"role": "user", "content": "x", "name": "y"}]}, "name"),
        ({"conversation_history": [{"role": "u" * 65, "content": "x"}]}, "role"),
        ({"conversation_history": [{"role": "u", "content": "x" * 32_769}]}, "content"),
        ({"conversation_history": [{"role": "u", "content": "x"}] * 129}, "conversation_history"),
        ({"user_prompt": "x" * 65_536, "query": "y" * 65_536, "conversation_history":
          [{"role": "u", "content": "z"}]}, "131072"),
        ({"topK": 5}, "top_k"),
        ({"only_need_context": True}, "only_need_context"),
        ({"stream": True}, "stream"),
        ({"include_references": False}, "include_references"),
    ],
)  # fmt: skip
async def test_what_the_server_would_refuse_is_refused_here_by_name(changes, named, httpx_mock):
    error = await failure("query_data", {"query": QUERY, **changes})
    assert error.code is Code.INVALID_ARGUMENT
    assert named in error.message
    assert len(error.message) < 3000
    assert httpx_mock.get_requests() == []


async def test_the_largest_request_that_the_server_takes_passes(httpx_mock):
    arguments = {
        "query": "y" * 65_536,
        "user_prompt": "x" * 65_536,
        "hl_keywords": ["x" * 512] * 64,
    }
    assert len((await asked(httpx_mock, arguments))["query"]) == 65_536


# --- what comes back --------------------------------------------------------------------------


async def test_real_evidence_under_lightrags_field_names(httpx_mock):
    serve(httpx_mock, "data_mix")
    outcome = await call("query_data")
    real = body_of("data_mix")
    keep = lambda items: [  # noqa: E731 - what we leave out
        {key: value for key, value in item.items() if key != "created_at"} for item in items
    ]
    assert outcome.structured == {
        "entities": keep(real["data"]["entities"]),
        "relationships": keep(real["data"]["relationships"]),
        "chunks": real["data"]["chunks"],
        "references": real["data"]["references"],
        "keywords": {"high_level": ["discovered", "polonium"], "low_level": ["Polonium"]},
        "mode": "mix",
        "truncated": False,
        "entityCount": 3,
        "relationshipCount": 3,
        "chunkCount": 1,
        "referenceCount": 1,
    }
    for part in ("1 passage(s)", "3 entities", "3 relationships", "curie.txt", "-chunk-000"):
        assert part in outcome.text


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "naive", "mix"])
async def test_real_evidence_of_every_mode(mode, httpx_mock):
    serve(httpx_mock, f"data_{mode}")
    structured = (await call("query_data")).structured
    assert structured["mode"] == mode
    assert structured["chunkCount"] == len(structured["chunks"]) == 1
    assert bool(structured["entities"]) == (mode != "naive")


@pytest.mark.parametrize("name", ["data_bypass", "emptyidx_data_bypass"])
async def test_bypass_retrieves_nothing_and_says_so(name, httpx_mock):
    serve(httpx_mock, name)
    outcome = await call("query_data", {"query": QUERY, "mode": "bypass"})
    assert outcome.structured["mode"] == "bypass"
    assert outcome.structured["chunks"] == []
    assert "retrieves nothing" in outcome.text


@pytest.mark.parametrize("name", ["emptyidx_data_mix", "emptyidx_data_naive"])
async def test_nothing_found_is_a_result_not_a_failure(name, httpx_mock):
    serve(httpx_mock, name)
    outcome = await call("query_data")
    assert outcome.structured["entityCount"] == outcome.structured["chunkCount"] == 0
    assert outcome.structured["truncated"] is False
    assert "Nothing was found" in outcome.text


async def test_a_failure_in_a_200_that_is_not_no_results_is_a_server_error(httpx_mock):
    body = {"status": "failure", "message": "Query failed: boom", "data": {}, "metadata": {}}
    httpx_mock.add_response(json=body)
    error = await failure("query_data")
    assert error.code is Code.SERVER_ERROR
    assert "boom" in error.message


async def test_a_real_backend_failure_is_a_server_error(httpx_mock):
    serve(httpx_mock, "down_llm503_data")
    assert (await failure("query_data")).code is Code.SERVER_ERROR


async def test_the_too_short_rule_is_the_servers():
    exchange = captured("qd_two")
    assert exchange["status"] == 400
    error = await failure("query_data", {"query": exchange["request"]["body"]["query"]})
    assert error.code is Code.INVALID_ARGUMENT


# --- caps -------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("aé漢🙂"), max_size=12).flatmap(
    lambda text: st.integers(1, 120).map(lambda times: text * times)
)


@settings(max_examples=80, deadline=None)
@given(
    chunks=st.lists(TEXTS, max_size=6),
    entities=st.lists(st.none() | TEXTS, max_size=5),
    edges=st.lists(st.none() | TEXTS, max_size=5),
    caps=st.tuples(st.integers(1024, 3000), st.integers(1024, 3000)),
)
async def test_caps_hold_and_counts_are_those_before_the_cut(chunks, entities, edges, caps):
    body = {
        "status": "success",
        "data": {
            "chunks": [{"content": text} for text in chunks],
            "entities": [{"entity_name": "E", "description": text} for text in entities],
            "relationships": [
                {"src_id": "A", "tgt_id": "B", "description": text, "weight": 0.5} for text in edges
            ],
            "references": [{"reference_id": "1", "file_path": "f"}],
        },
    }
    outcome = await found(body, query={"maxContentBytes": caps[0], "maxAnswerBytes": caps[1]})
    got = outcome.structured
    kept = [item["content"] for item in got["chunks"]]
    described = [item["description"] for item in got["entities"] + got["relationships"]]
    assert sum(len(text.encode()) for text in kept) <= caps[0]
    assert sum(len((text or "").encode()) for text in described) <= caps[1]
    assert got["chunkCount"] == len(chunks)
    assert got["entityCount"] == len(entities)
    assert got["relationshipCount"] == len(edges)
    assert got["referenceCount"] == len(got["references"]) == 1
    assert got["truncated"] == (kept != chunks or described != entities + edges)
    assert len(outcome.text.encode()) <= 48_000
