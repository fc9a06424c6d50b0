"""insert, scan and delete: asynchronous, said so, and refused in the server's own ways."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lightrag import Code, LightRagError

from .support import body_of, call, call_over, captured, failure, reply, sent, serve

TEXT = "Marie Curie discovered Polonium."


async def inserted(httpx_mock, arguments, **row):
    httpx_mock.add_response(json=body_of("insert_text_ok"))
    outcome = await call("insert", arguments, **row)
    return sent(httpx_mock.get_requests()[-1]), outcome


# --- insert -----------------------------------------------------------------------------------


async def test_a_real_insert_tells_name_id_and_track_and_that_it_is_not_done(httpx_mock):
    serve(httpx_mock, "insert_text_ok")
    arguments = captured("insert_text_ok")["request"]["body"]
    outcome = await call("insert", {"text": arguments["text"], "source": arguments["file_source"]})
    assert sent(httpx_mock.get_requests()[0]) == arguments
    assert outcome.structured == {
        "trackId": "insert_20261130_111053_542a00f0",
        "status": "success",
        "message": body_of("insert_text_ok")["message"],
        "source": "curie.txt",
        "documentId": "doc-082e2a80de83262794b1010f21680642",
    }
    assert "not searchable yet" in outcome.text
    for part in ("curie.txt", "doc-082e2a80", "insert_20261130"):
        assert part in outcome.text


@pytest.mark.parametrize(
    ("source", "filed", "document_id"),
    [
        ("curie.txt", "curie.txt", "doc-082e2a80de83262794b1010f21680642"),
        ("some/dir/curie.txt", "curie.txt", "doc-082e2a80de83262794b1010f21680642"),
        ("newton.txt", "newton.txt", "doc-a27fd4a67891df862bc11387a665268c"),
        ("tenant1__doc-42", "tenant1__doc-42", "doc-42456bd5bc4c9ae9cb6c5f48b31701bf"),
        ("https://example.org/docs/ada?x=1", "ada?x=1", "doc-790be81c566f4c7acb0642679dbeef12"),
        ("a/../b.txt", "b.txt", None),
        (" a.txt ", "a.txt", None),
        ("dir/ a.txt", "a.txt", None),
        ("dir/name/", "name", None),
        ("rep.[native].docx", "rep.docx", None),
        ("rep.[native-iet].docx", "rep.docx", None),
        ("rep.[mineru].pdf", "rep.pdf", None),
        ("C:\\docs\\a.txt", "C:\\docs\\a.txt", None),
        ("Größe 漢字: <b>.txt", "Größe 漢字: <b>.txt", None),
        ("x" * 300 + ".txt", "x" * 300 + ".txt", None),
        ("..", "..", None),
        ("Curie.txt", "Curie.txt", None),
    ],
)
async def test_a_source_is_filed_under_its_last_segment_and_gives_the_id(
    source, filed, document_id, httpx_mock
):
    body, outcome = await inserted(httpx_mock, {"text": TEXT, "source": source})
    assert body == {"text": TEXT, "file_source": filed}
    expected = document_id or "doc-" + hashlib.md5(filed.encode()).hexdigest()  # noqa: S324 - not for security: LightRAG's own rule
    assert outcome.structured["documentId"] == expected
    assert outcome.structured["source"] == filed


async def test_a_name_that_the_server_would_shorten_once_more_is_not_promised(httpx_mock):
    """LightRAG drops one parser hint from the name that it is sent, so one must not be left."""
    arguments = {"text": TEXT, "source": "rep.[native].[mineru].pdf"}
    httpx_mock.add_response(json=body_of("insert_text_ok"), is_optional=True)
    try:
        outcome = await call("insert", arguments)
    except LightRagError as error:  # a refusal is as good as the right name
        assert error.code is Code.INVALID_ARGUMENT  # noqa: PT017 - as above
    else:
        assert ".[" not in outcome.structured["source"]


async def test_a_missing_source_is_named_after_the_text(httpx_mock):
    name = f"text-{hashlib.sha256(TEXT.encode()).hexdigest()[:16]}.txt"
    for arguments in ({"text": TEXT}, {"text": TEXT, "source": None}):
        body, outcome = await inserted(httpx_mock, arguments)
        assert body == {"text": TEXT, "file_source": name}
        assert outcome.structured["source"] == name
        assert name in outcome.text


@pytest.mark.parametrize(
    "source",
    [
        "",
        " ",
        "/",
        "//",
        "dir/ /",
        ".",
        "unknown_source",
        "dir/unknown_source",
        "no-file-path",
        "a\x00b.txt",
        "a\nb.txt",
        "a\x7fb",
        "a\x85b",
        "bad\ud800.txt",
        "rep.[bogus].docx",
        "rep.[].docx",
        5,
        ["x"],
    ],
)
async def test_a_source_that_the_server_would_refuse_makes_no_request(source, httpx_mock):
    error = await failure("insert", {"text": TEXT, "source": source})
    assert error.code is Code.INVALID_ARGUMENT
    assert "source" in error.message
    assert httpx_mock.get_requests() == []


@pytest.mark.parametrize("text", ["", " \n", None, 5, ["x"], "bad \ud800"])
async def test_a_text_that_is_none_makes_no_request(text, httpx_mock):
    error = await failure("insert", {"text": text, "source": "a.txt"})
    assert error.code is Code.INVALID_ARGUMENT
    assert "text" in error.message
    assert httpx_mock.get_requests() == []


async def test_the_size_is_checked_in_bytes_before_any_request(httpx_mock):
    row = {"writes": {"enabled": True, "maxTextBytes": 1024}}
    body, _ = await inserted(httpx_mock, {"text": "é" * 512}, **row)
    assert body["text"] == "é" * 512
    before = len(httpx_mock.get_requests())
    for text in ("é" * 512 + "a", "x" * 1025, "🙂" * 257):
        error = await failure("insert", {"text": text}, **row)
        assert error.code is Code.TOO_LARGE
        assert str(len(text.encode())) in error.message
        assert "1024" in error.message
        assert "plit" in error.hint
    assert len(httpx_mock.get_requests()) == before


@settings(max_examples=100, deadline=None)
@given(source=st.text(st.sampled_from("ab./\\[]-()漢 \t"), max_size=14))
async def test_what_is_sent_is_what_is_told_and_the_id_is_its_hash(source):
    bodies = []

    def handler(request):
        bodies.append(sent(request))
        return reply(body_of("insert_text_ok"))

    try:
        outcome = await call_over(handler, "insert", {"text": TEXT, "source": source})
    except LightRagError as error:
        assert (error.code, bodies) == (Code.INVALID_ARGUMENT, [])  # noqa: PT017 - either is right
    else:
        name = bodies[0]["file_source"]
        assert name == name.strip() != ""
        assert "/" not in name
        assert outcome.structured["documentId"] == (
            "doc-" + hashlib.md5(name.encode()).hexdigest()  # noqa: S324 - LightRAG's own rule
        )


async def test_a_real_conflict_names_the_mend(httpx_mock):
    serve(httpx_mock, "insert_same_source")
    error = await failure("insert")
    assert error.code is Code.CONFLICT
    assert "curie.txt" in error.message
    assert "delete" in error.hint.lower()


async def test_an_insert_while_the_pipeline_is_busy_is_accepted(httpx_mock):
    serve(httpx_mock, "busy_insert")
    assert (await call("insert")).structured["status"] == "success"


async def test_the_duplicate_of_an_older_server_is_a_conflict(httpx_mock):
    message = "Identical content already exists"
    httpx_mock.add_response(json={"status": "duplicated", "message": message, "track_id": ""})
    error = await failure("insert")
    assert error.code is Code.CONFLICT
    assert message in error.message


# --- the busy family --------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["insert", "scan", "delete"])
@pytest.mark.parametrize("status", ["busy", "not_allowed", "scanning_skipped_pipeline_busy"])
async def test_a_write_refused_inside_a_200_is_busy(tool, status, httpx_mock):
    httpx_mock.add_response(json={"status": status, "message": "Pipeline is busy."})
    error = await failure(tool)
    assert (error.code, error.status) == (Code.BUSY, 200)
    assert "Pipeline is busy." in error.message
    assert "dsh_lightrag_status" in error.hint


@pytest.mark.parametrize(("tool", "name"), [("scan", "busy_scan"), ("delete", "busy_delete")])
async def test_real_refusals_inside_a_200_are_busy(tool, name, httpx_mock):
    serve(httpx_mock, name)
    error = await failure(tool)
    assert error.code is Code.BUSY
    assert body_of(name)["message"][:60] in error.message


async def test_a_write_that_failed_inside_a_200_is_a_server_error(httpx_mock):
    httpx_mock.add_response(json={"status": "fail", "message": "boom"})
    assert (await failure("delete")).code is Code.SERVER_ERROR


# --- scan and delete --------------------------------------------------------------------------


async def test_a_real_scan_sends_no_body_and_says_that_it_was_started(httpx_mock):
    serve(httpx_mock, "scan_ok")
    outcome = await call("scan")
    (request,) = httpx_mock.get_requests()
    assert request.content == b""
    assert outcome.structured == body_to_camel(body_of("scan_ok"))
    assert "was started" in outcome.text
    assert (await failure("scan", {"path": "/etc"})).code is Code.INVALID_ARGUMENT


def body_to_camel(body):
    return {"trackId": body["track_id"], "status": body["status"], "message": body["message"]}


async def test_a_delete_never_touches_files_or_the_cache_and_never_claims_to_be_done(httpx_mock):
    serve(httpx_mock, "delete_ok")
    document_id = "doc-082e2a80de83262794b1010f21680642"
    outcome = await call("delete", {"documentId": f" {document_id} "})
    assert sent(httpx_mock.get_requests()[0]) == {
        "doc_ids": [document_id],
        "delete_file": False,
        "delete_llm_cache": False,
    }
    assert outcome.structured == {
        "status": "deletion_started",
        "message": body_of("delete_ok")["message"],
        "docId": document_id,
    }
    assert "not done yet" in outcome.text
    for claim in ("was deleted", "has been deleted", "is deleted", "successfully"):
        assert claim not in outcome.text.lower()


async def test_an_unknown_id_is_accepted_as_the_server_does_and_the_text_says_so(httpx_mock):
    serve(httpx_mock, "delete_unknown")
    outcome = await call("delete", {"documentId": "doc-nope"})
    assert outcome.structured["status"] == "deletion_started"
    assert "accepts unknown ids" in outcome.text


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"documentId": " "},
        {"documentId": None},
        {"documentId": ["a", "b"]},
        {"documentId": "bad\ud800"},
        {"documentId": "doc-1", "deleteFile": True},
        {"documentId": "doc-1", "delete_llm_cache": True},
        {"docId": "doc-1"},
    ],
)
async def test_a_delete_without_one_id_makes_no_request(arguments, httpx_mock):
    assert (await failure("delete", arguments)).code is Code.INVALID_ARGUMENT
    assert httpx_mock.get_requests() == []
