"""Documents: filed under LightRAG's identity, each with its status and reason, deleted whole."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing

import pytest
from embedded_support import CURIE, NILE, Provider, Reply, found, opened, rows, settled, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lightrag.demo.stub_model import Backend, StubModel
from dsh_lightrag.engine import ChunkSizes
from dsh_lightrag.server.backend import (
    Ask,
    BusyError,
    NameTakenError,
    NewDocument,
    PageWanted,
    UnknownDocumentsError,
)
from dsh_lightrag.server.embedded.identity import canonical_name, document_id
from dsh_lightrag.server.endpoint import Endpoint


def md5_id(name):
    return "doc-" + hashlib.md5(name.encode()).hexdigest()  # noqa: S324 - LightRAG's id


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("curie.txt", "curie.txt"),
        ("some/dir/curie.txt", "curie.txt"),
        ("https://x/docs/ada?x=1", "ada?x=1"),
        ("a/../b.txt", "b.txt"),
        (" padded.txt ", "padded.txt"),
        ("rep.[native].docx", "rep.docx"),
        ("win\\dir\\c.txt", "win\\dir\\c.txt"),
        ("..", ".."),
        ("<b>.txt", "<b>.txt"),
        ("/", ""),
    ],
)
def test_a_document_is_called_by_the_last_segment_of_its_source(source, name):
    assert canonical_name(source) == name
    assert document_id(source) == md5_id(name)


async def test_a_filed_document_has_lightrags_id_and_its_chunks_begin_with_it(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "insert_1")
        row = await backend.named("elsewhere/curie.txt")
        evidence = await backend.evidence(Ask("Who discovered Polonium?"))

    assert (row.id, row.file_path) == (md5_id("curie.txt"), "curie.txt")
    assert (row.status, row.track_id, row.chunks_count) == ("processed", "insert_1", 1)
    assert (row.content_length, row.error_msg) == (len(CURIE.text), None)
    assert row.created_at.utcoffset().total_seconds() == 0
    assert [chunk.chunk_id for chunk in evidence.chunks] == [f"{row.id}-chunk-000"]


async def test_a_taken_name_refuses_the_whole_batch(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "one")
        with pytest.raises(NameTakenError):
            await backend.insert([NILE, NewDocument("Other text.", "x/curie.txt")], "two")
        with pytest.raises(NameTakenError):
            await backend.insert([NewDocument("a", "n.txt"), NewDocument("b", "n.txt")], "three")

        assert list(await rows(backend)) == ["curie.txt"]
        assert await found(backend, "Nile") == []


async def test_of_six_that_come_at_once_under_one_name_one_is_filed(tmp_path):
    async with opened(tmp_path) as backend:
        outcomes = await asyncio.gather(
            *(backend.insert([NewDocument(f"Text {n}.", "one.txt")], f"t{n}") for n in range(6)),
            return_exceptions=True,
        )

        assert Counter(map(type, outcomes)) == {NameTakenError: 5, type(None): 1}
        assert list(await rows(backend)) == ["one.txt"]


async def test_an_equal_text_under_another_name_is_a_failed_row_that_names_the_original(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "one")
        await backend.insert([NewDocument(CURIE.text, "copy.txt"), NILE], "two")
        tracked = {row.file_path: row for row in await backend.tracked("two")}
        copy = tracked["copy.txt"]

        assert tracked["nile.txt"].status == "processed"
        assert (copy.id[:4], copy.status) == ("dup-", "failed")
        assert copy.error_msg.endswith(f"Original doc_id: {md5_id('curie.txt')}")
        assert copy.metadata == {
            "is_duplicate": True,
            "duplicate_kind": "content_hash",
            "original_doc_id": md5_id("curie.txt"),
            "original_track_id": "one",
        }
        assert await backend.named("copy.txt") is None

        await backend.insert([NewDocument("Its own text now.", "copy.txt")], "three")
        assert (await backend.named("copy.txt")).status == "processed"
        assert len(await rows(backend)) == 3


async def test_a_file_that_could_not_be_read_is_kept_with_its_reason_until_it_can(tmp_path):
    async with opened(tmp_path) as backend:
        for _ in range(2):
            await backend.record_failure("in/broken.pdf", "The file is encrypted.", "up")
    async with opened(tmp_path) as backend:
        (row,) = await backend.tracked("up")
        assert (row.file_path, row.status) == ("broken.pdf", "failed")
        assert row.error_msg == "The file is encrypted."
        assert row.content_summary == "[File Extraction]The file is encrypted."

        await backend.insert([NewDocument("Now it can.", "broken.pdf")], "again")
        assert (await rows(backend))["broken.pdf"].status == "processed"
        assert await backend.tracked("up") == ()


async def test_pages_are_filtered_sorted_and_counted(tmp_path):
    async with opened(tmp_path) as backend:
        for number in range(12):
            await backend.insert([NewDocument(f"Text {number}.", f"{number:02}.txt")], "t")
        await backend.record_failure("zz.pdf", "Empty.", "t")
        page = await backend.page(
            PageWanted(page=2, page_size=10, sort_field="file_path", descending=False)
        )
        failed = await backend.page(PageWanted(statuses=("failed",)))
        parsing = await backend.page(PageWanted(statuses=("parsing",)))
        beyond = await backend.page(PageWanted(page=99))
        newest = await backend.page(PageWanted(sort_field="created_at"))

    assert [row.file_path for row in page.rows] == ["10.txt", "11.txt", "zz.pdf"]
    assert (page.total, dict(page.counts)) == (13, {"processed": 12, "failed": 1})
    assert [row.file_path for row in failed.rows] == ["zz.pdf"]
    assert (failed.total, dict(failed.counts)) == (1, dict(page.counts))
    assert (parsing.rows, parsing.total, dict(parsing.counts)) == ((), 0, dict(page.counts))
    assert (beyond.rows, beyond.total) == ((), 13)
    assert [row.file_path for row in newest.rows][:2] == ["zz.pdf", "11.txt"]


async def test_a_document_is_processed_only_when_vectors_and_graph_are_there(tmp_path):
    with StubModel() as stub:
        models = {"embedder": Endpoint(stub.url, "e"), "chat": Endpoint(stub.url, "c")}
        async with opened(tmp_path, **models) as backend:
            stub.chat = Backend.SLOW
            await backend.insert([CURIE], "t")
            assert await found(backend, "Polonium")

            async def embedded():
                return (await rows(backend))["curie.txt"].status == "processing"

            await until(embedded)
            state = await backend.pipeline()
            assert (state.busy, state.latest_message) == (True, "0 of 1 chunks are indexed")

            stub.chat = Backend.OK
            await settled(backend)
            row = (await rows(backend))["curie.txt"]
            evidence = await backend.evidence(Ask("Who is Marie Curie?", mode="local"))

    assert row.status == "processed"
    assert row.metadata["llm_tokens"] > 0
    assert "Marie Curie discovered Polonium in Paris." in {
        entity.description for entity in evidence.entities
    }


async def test_documents_fail_with_the_reason_while_a_model_is_down_and_recover(tmp_path):
    with StubModel() as stub:
        endpoint = Endpoint(stub.url, "e", attempts=1)
        async with opened(tmp_path, embedder=endpoint) as backend:
            stub.embeddings = Backend.UNAUTHORIZED
            await backend.insert([CURIE], "t")

            async def failed():
                return (await rows(backend))["curie.txt"].status == "failed"

            await until(failed)
            row = (await rows(backend))["curie.txt"]
            assert row.error_msg == "The embedding endpoint refuses the key (401)."
            assert not (await backend.pipeline()).busy
            assert await found(backend, "Polonium")

            stub.embeddings = Backend.OK
            assert await backend.retry_failed("ignored") == 1

            async def processed():
                return (await rows(backend))["curie.txt"].status == "processed"

            await until(processed)
            assert (await backend.tracked("t"))[0].error_msg is None


async def test_a_bad_answer_of_the_chat_model_fails_its_document_alone(tmp_path):
    def answer(request):
        bad = "Nile" in request["messages"][-1]["content"]
        text = "no JSON" if bad else '{"entities": [], "relations": []}'
        return Reply(body=b'{"choices": [{"message": {"content": %s}}]}' % repr_json(text))

    with Provider(answer) as provider:
        async with opened(tmp_path, chat=Endpoint(provider.url, "c")) as backend:
            await backend.insert([CURIE, NILE], "t")
            await settled(backend)
            listed = await rows(backend)

    assert listed["curie.txt"].status == "processed"
    assert listed["nile.txt"].status == "failed"
    assert listed["nile.txt"].error_msg == "The chat model answered with no JSON object."


def repr_json(text):
    return ('"' + text.replace('"', '\\"') + '"').encode()


async def test_a_deleted_document_is_in_no_answer_list_or_graph(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE, NILE], "t")
        await backend.record_failure("bad.pdf", "Empty.", "t")
        bad = (await rows(backend))["bad.pdf"].id
        with pytest.raises(UnknownDocumentsError, match="doc-none"):
            await backend.delete([md5_id("curie.txt"), "doc-none"])
        assert len(await rows(backend)) == 3

        await backend.delete([md5_id("curie.txt"), bad])
        state = await settled(backend)

        assert state.latest_message == "Deletion completed: 2 successful, 0 failed"
        assert list(await rows(backend)) == ["nile.txt"]
        assert await found(backend, "Who discovered Polonium with Marie Curie?") == []
        assert not [name for name in await backend.labels() if "Curie" in name]
        await backend.insert([CURIE], "again")
        assert await found(backend, "Polonium")


async def test_while_documents_are_deleted_nothing_is_written(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([NewDocument(f"Text {n}.", f"{n}.txt") for n in range(30)], "t")
        await backend.delete([md5_id(f"{n}.txt") for n in range(30)])

        assert (await backend.pipeline()).deleting
        for refused in (
            backend.insert([CURIE], "t"),
            backend.clear(),
            backend.delete([md5_id("1.txt")]),
            backend.retry_failed(""),
        ):
            with pytest.raises(BusyError, match="clearing or deleting"):
                await refused
        await settled(backend)
        await backend.insert([CURIE], "t")
        assert list(await rows(backend)) == ["curie.txt"]


async def test_a_promised_deletion_goes_on_after_the_workspace_was_closed(tmp_path):
    names = [f"{n}.txt" for n in range(20)]
    async with opened(tmp_path) as backend:
        await backend.insert([NewDocument(f"Text {name}.", name) for name in names], "t")
        await backend.delete([md5_id(name) for name in names])
    async with opened(tmp_path) as backend:
        await settled(backend)
        assert await rows(backend) == {}


async def test_a_deletion_that_fails_says_so_and_goes_on_at_the_next_opening(tmp_path, capsys):
    def told(statement):
        with closing(sqlite3.connect(tmp_path / "bases/team/base.sqlite")) as base:
            base.execute(statement)

    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "t")
        told("CREATE TRIGGER broken BEFORE DELETE ON document BEGIN SELECT RAISE(ABORT, 'x'); END")
        await backend.delete([md5_id("curie.txt")])
        state = await settled(backend)
        assert state.latest_message == "Deletion completed: 0 successful, 1 failed"
        assert list(await rows(backend)) == ["curie.txt"]
        with pytest.raises(sqlite3.IntegrityError):
            await backend.clear()
        assert (await backend.pipeline()).latest_message == "Clearing failed"
    assert "deletion_failed" in capsys.readouterr().err
    told("DROP TRIGGER broken")
    async with opened(tmp_path) as backend:
        await settled(backend)
        assert await rows(backend) == {}


async def test_clearing_leaves_an_empty_base_that_works_on(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE, NILE], "t")
        await backend.record_failure("bad.pdf", "Empty.", "t")

        assert await backend.clear() == 3
        assert await backend.clear() == 0
        assert await rows(backend) == {}
        assert await backend.labels() == []
        assert await found(backend, "Polonium and the Nile") == []
        await backend.insert([CURIE], "t")
        assert await found(backend, "Polonium") == [CURIE.text]
    with sqlite3.connect(tmp_path / "bases/team/base.sqlite") as base:
        (chunks,) = base.execute("SELECT count(*) FROM chunk").fetchone()
    base.close()
    assert chunks == 1


KILLED = """
import asyncio, os, pathlib, sys
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.backend import NewDocument
from dsh_lightrag.server.endpoint import Endpoint
async def main():
    endpoint = Endpoint(sys.argv[2], "e")
    keeper = EmbeddedKeeper(EmbeddedSettings(pathlib.Path(sys.argv[1]), endpoint))
    await keeper.create("team")
    backend = await keeper.open("team")
    for number in range(100):
        text = NewDocument(f"Marker{number}x. " * 100, f"{number}.txt")
        await backend.insert([text], "t")
        print(number, flush=True)
asyncio.run(main())
"""


async def test_ingestion_that_was_killed_goes_on_when_the_workspace_is_opened(tmp_path):
    with StubModel() as stub:
        with subprocess.Popen(  # noqa: S603, ASYNC220 - our own script
            [sys.executable, "-c", KILLED, str(tmp_path), stub.url], stdout=subprocess.PIPE
        ) as writer:
            for _ in range(5):
                last = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
        async with opened(tmp_path, embedder=Endpoint(stub.url, "e")) as backend:
            await settled(backend)
            listed = await rows(backend, page_size=200)
            for number in range(last + 1):
                assert listed[f"{number}.txt"].status == "processed"
                assert await found(backend, f"marker{number}x", "naive", chunk_top_k=1)


async def test_a_cancelled_insertion_is_filed_whole_or_not_at_all(tmp_path):
    batch = [NewDocument(f"Text {n}. " * 50, f"{n}.txt") for n in range(40)]
    async with opened(tmp_path) as backend:
        task = asyncio.create_task(backend.insert(batch, "t"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert len(await rows(backend)) in (0, 40)
        assert (await backend.pipeline()).pending_enqueues == 0


@pytest.mark.parametrize(
    "text",
    [
        "Мария Кюри открыла полоний. 居里夫人 发现了钋. キュリー夫人 مرحبا 👩‍🔬",
        "lone \ud800 surrogate Marker",
        "a NUL \x00 Marker",
        "right \u202e to left Marker",
        "\u2028Marker\u2029",
    ],
    ids=["scripts", "surrogate", "nul", "bidi", "separators"],
)
async def test_any_text_is_filed_found_and_shown(tmp_path, text):
    async with opened(tmp_path) as backend:
        await backend.insert([NewDocument(text, "odd.txt")], "t")
        answer = await backend.answer(Ask("Marker полоний 居里夫人"), stream=False)
        evidence = await backend.evidence(Ask("Marker полоний 居里夫人"))
        assert evidence.chunks
        for shown in (answer.text, evidence.chunks[0].content):
            assert "\x00" not in shown
            shown.encode()
        await backend.delete([md5_id("odd.txt")])
        await settled(backend)
        assert await backend.labels() == []


@pytest.mark.timeout(300)  # ten seconds of one core's work, on a machine that may be busy
async def test_one_line_of_ten_megabytes_is_filed_and_questions_go_on_meanwhile(tmp_path):
    line = "".join(f"record{n % 997}:" + "x" * 90 for n in range(101_000)) + " record996 "
    assert len(line) > 10_000_000
    async with opened(tmp_path, chunks=ChunkSizes(4000, 0)) as backend:
        await backend.insert([CURIE], "t")
        filing = asyncio.create_task(backend.insert([NewDocument(line, "line.txt")], "t"))
        asked = 0
        while not filing.done():
            assert await found(backend, "Polonium") == [CURIE.text]
            asked += 1
            await asyncio.sleep(0.1)
        await filing
        assert asked > 3
        assert (await backend.named("line.txt")).status == "processed"
        assert await found(backend, "record996", "naive")


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(source=st.text(max_size=40), text=st.text(min_size=1, max_size=200))
async def test_no_source_and_no_text_breaks_the_list(tmp_path_factory, source, text):
    async with opened(tmp_path_factory.mktemp("any")) as backend:
        await backend.insert([NewDocument(text, source)], "t")
        (row,) = (await backend.page(PageWanted())).rows
        assert row.id == document_id(source)
        assert "/" not in row.file_path
        row.file_path.encode()
        row.content_summary.encode()
