"""T8 of the contract: a 2xx is what the route promises, or a bad-response that repeats nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lightrag import Code, LightRagError

from .support import BEGUN, KEY, body_of, call_over, reply

BAD = {
    "empty": b"",
    "blank": b" \n",
    "html": b"<!doctype html><title>Sign in</title>",
    "text": b"OK",
    "list": b"[]",
    "null": b"null",
    "number": b"5",
    "string": b'"answer"',
    "no required field": b'{"llm_generated":true}',
    "required field null": b'{"response":null}',
    "wrong type": b'{"response":5}',
    "bool is no text": b'{"response":true}',
    "text is no bool": b'{"response":"a","llm_generated":"yes"}',
    "references no list": b'{"response":"a","references":{}}',
    "reference no object": b'{"response":"a","references":["x"]}',
    "content no list": b'{"response":"a","references":[{"content":"x"}]}',
    "broken off": b'{"response":"a"',
    "two values": b'{"response":"a"}{"response":"b"}',
    "trailing": b'{"response":"a"} x',
    "NaN": b'{"response":"a","response_time":NaN}',
    "Infinity": b'{"response":"a","response_time":Infinity}',
    "-Infinity": b'{"response":"a","deep":[[-Infinity]]}',
    "invalid UTF-8": b'{"response":"\xff"}',
    "UTF-16": '{"response":"a"}'.encode("utf-16"),
    "lone surrogate": b'{"response":"\\ud800"}',
    "lone low surrogate": b'{"response":"\\udc00 x"}',
    "two BOMs": b'\xef\xbb\xbf\xef\xbb\xbf{"response":"a"}',
    "deep": b'{"response":"a","x":' + b"[" * 300 + b"]" * 300 + b"}",
    "very deep": b"[" * 100_000,
    "single quotes": b"{'response':'a'}",
    "comment": b'{"response":"a"/**/}',
    "control in string": b'{"response":"a\x00"}',
}


async def answer(body, tool="query", **row):
    return await call_over(lambda _: reply(body), tool, **row)


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
async def test_what_the_route_does_not_promise_is_a_bad_response(body):
    with pytest.raises(LightRagError) as caught:
        await answer(body)
    assert (caught.value.code, caught.value.status) == (Code.BAD_RESPONSE, 200)


async def test_a_bad_response_does_not_repeat_what_the_server_sent():
    with pytest.raises(LightRagError) as caught:
        await answer({"response": {"SECRET-KEY": "SECRET-VALUE"}})
    assert "SECRET" not in str(caught.value)
    outcome = await answer({"status": "ok", "status_counts": {"SECRET": "x"}}, "status")
    assert outcome.structured["countsError"]["code"] == "bad-response"
    assert "SECRET" not in outcome.text + json.dumps(outcome.structured)


@pytest.mark.parametrize("status", [201, 202, 204, 206])
async def test_any_2xx_is_held_to_the_same_promise(status):
    with pytest.raises(LightRagError) as caught:
        await call_over(lambda _: reply(b"", status), "query")
    assert caught.value.code is Code.BAD_RESPONSE


async def test_one_bom_is_tolerated_and_of_duplicate_keys_the_last_wins():
    outcome = await answer(b'\xef\xbb\xbf{"response":"one","response":"two"}')
    assert outcome.structured["answer"] == "two"


async def test_unknown_fields_are_ignored_and_words_like_nan_in_text_are_text():
    body = {"response": "NaN and Infinity", "later": {"version": [1, 2]}, "response_time": 1e308}
    assert (await answer(body)).structured["answer"] == "NaN and Infinity"


async def test_depth_of_an_ordinary_answer_is_no_reason_to_refuse_it():
    body = b'{"response":"a","x":' + b"[" * 100 + b"]" * 100 + b"}"
    assert (await answer(body)).structured["answer"] == "a"


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        (b"3", 3),
        (b"3.9", 3),
        (b"-4", 0),
        (b"-0.5", 0),
        (b'"12"', 12),
        (b"1e3", 1000),
        (b"9007199254740993", 2**53 - 1),
        (b"1" + b"0" * 400, 2**53 - 1),
    ],
)
async def test_a_count_is_a_non_negative_integer_that_every_json_reader_can_hold(number, meant):
    body = b'{"documents":[],"pagination":{"total_count":' + number + b',"has_next":false}}'
    assert (await answer(body, "documents")).structured["totalCount"] == meant


@pytest.mark.parametrize("number", [b"true", b'"many"', b'"NaN"', b'"Infinity"', b"[]", b"{}"])
async def test_a_count_that_is_no_number_is_a_bad_response(number):
    with pytest.raises(LightRagError) as caught:
        await answer(
            b'{"documents":[{"id":"d","status":"failed","chunks_count":' + number + b"}]}",
            "documents",
        )
    assert caught.value.code is Code.BAD_RESPONSE


async def test_a_number_too_large_for_a_float_is_no_bug():
    huge = b"9" * 4000
    for body in (
        b'{"response":"a","response_time":' + huge + b"}",
        b'{"response":"a","response_time":1e999}',
    ):
        try:
            assert (await answer(body)).structured["answer"] == "a"
        except LightRagError as error:
            assert error.code is Code.BAD_RESPONSE  # noqa: PT017 - either is right


# --- text in answers --------------------------------------------------------------------------

DIRTY = "a\u202eb\U000e0041c\x00d\x9fe"
CLEANED = "a�b�c�d�e"


async def test_control_bidi_and_tag_characters_are_replaced_in_structured_results_too():
    body = {"response": DIRTY, "references": [{"reference_id": DIRTY, "file_path": f"x\n{DIRTY}"}]}
    outcome = await answer(body)
    (reference,) = outcome.structured["references"]
    assert outcome.structured["answer"] == CLEANED
    assert reference["referenceId"] == CLEANED
    assert reference["filePath"] == f"x\\n{CLEANED}"
    row = {
        "id": DIRTY,
        "status": "failed",
        "error_msg": DIRTY,
        "file_path": "a\r\nb",
        "track_id": DIRTY,
    }
    (document,) = (await answer({"documents": [row]}, "documents")).structured["documents"]
    assert (document["id"], document["errorMessage"], document["filePath"]) == (
        CLEANED,
        CLEANED,
        "a\\nb",
    )


@pytest.mark.parametrize("tool", ["query", "documents", "query_data", "insert", "scan", "delete"])
async def test_a_key_that_the_server_repeats_is_redacted_everywhere(tool):
    body = {
        "response": KEY,
        "references": [{"reference_id": KEY, "file_path": KEY, "content": [KEY]}],
        "documents": [
            {"id": KEY, "status": KEY, "file_path": KEY, "error_msg": KEY, "track_id": KEY}
        ],
        "status": BEGUN.get(tool, KEY),
        "message": KEY,
        "track_id": KEY,
        "doc_id": KEY,
        "data": {
            "entities": [{"entity_name": KEY, "description": KEY}],
            "relationships": [{"src_id": KEY, "tgt_id": KEY, "keywords": KEY}],
            "chunks": [{"content": KEY, "chunk_id": KEY}],
            "references": [{"reference_id": KEY}],
        },
        "metadata": {"query_mode": KEY, "keywords": {"high_level": [KEY], "low_level": [KEY]}},
        "status_counts": {KEY: 1},
    }
    outcome = await answer(body, tool)
    assert KEY not in json.dumps(outcome.structured)
    assert KEY not in outcome.text
    assert "[redacted]" in outcome.text


# --- anything ---------------------------------------------------------------------------------

NAMES = (
    "response references llm_generated documents pagination total_count has_next status_counts "
    "status message data entities chunks content metadata id track_id"
)
FIELDS = st.sampled_from(NAMES.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("tool", ["query", "documents", "status", "query_data", "insert"])
@settings(max_examples=60, deadline=None)
@given(body=st.binary(max_size=60) | JSON)
async def test_any_body_is_a_result_or_a_typed_error(tool, body):
    try:
        outcome = await answer(body, tool)
    except LightRagError:
        return
    assert json.dumps(outcome.structured, allow_nan=False)
    assert outcome.text


@pytest.mark.parametrize("name", ["query_mix", "query_bypass", "query_norefs"])
async def test_real_answers_are_read(name):
    outcome = await answer(body_of(name))
    assert outcome.structured["answer"] == body_of(name)["response"]
