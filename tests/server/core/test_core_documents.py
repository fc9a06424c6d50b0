"""Documents in LightRAG's core: filed once, processed, found, deleted, counted."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from core_support import ADA, MARIE, ask, files_of, idle, put

from dsh_lightrag.server.backend import (
    NameTakenError,
    NewDocument,
    PageWanted,
    UnknownDocumentsError,
)


async def test_a_document_becomes_evidence_and_a_graph(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE, ada=ADA)
        row = await backend.named("marie.md")
        # The id that LightRAG's own server makes.
        assert row.id == "doc-" + hashlib.md5(b"marie.md", usedforsecurity=False).hexdigest()
        assert (row.status, row.track_id, row.chunks_count) == ("processed", "track-1", 1)
        assert row.metadata["llm_tokens"] > 100
        found = await backend.evidence(ask("Who discovered polonium?"))
        assert "marie.md" in files_of(found)
        assert found.references[0].content
        assert [entity.entity_name for entity in found.entities]
        assert await backend.has_entity("Marie Curie")
        assert not await backend.has_entity("marie curie")
        assert "Marie Curie" in await backend.labels()
        assert "Marie Curie" in await backend.popular_labels(10)
        assert "Marie Curie" in await backend.search_labels("curie", 10)
        graph = await backend.subgraph("Marie Curie", 2, 100)
        assert {"Marie Curie", "Pierre Curie"} <= {node.id for node in graph.nodes}
        assert graph.edges
        assert (await backend.subgraph("Nobody", 2, 100)).nodes == ()


async def test_of_many_inserts_of_one_name_one_is_filed(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        tries = [
            backend.insert([NewDocument(f"{MARIE} {n}", "folder/marie.md")], f"track-{n}")
            for n in range(6)
        ]
        ends = await asyncio.gather(*tries, return_exceptions=True)
        assert [type(end) for end in ends if end is not None] == [NameTakenError] * 5
        await idle(backend)
        page = await backend.page(PageWanted())
        assert [row.file_path for row in page.rows] == ["marie.md"]
        assert (page.total, page.counts) == (1, {"processed": 1})


async def test_nothing_of_a_request_with_a_taken_name_is_filed(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE)
        with pytest.raises(NameTakenError):
            await backend.insert(
                [NewDocument(ADA, "ada.md"), NewDocument(ADA + ".", "marie.md")], "track-2"
            )
        with pytest.raises(NameTakenError):
            await backend.insert([NewDocument("a", "x.md"), NewDocument("b", "y/x.md")], "track-2")
        assert (await backend.page(PageWanted())).total == 1
        assert await backend.tracked("track-2") == []


async def test_the_same_text_under_another_name_is_a_row_that_points_at_the_first(
    settings, keeping
):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE)
        first = await backend.named("marie.md")
        await backend.insert([NewDocument(MARIE, "copy.md")], "track-2")
        (row,) = await backend.tracked("track-2")
        assert row.id.startswith("dup-")
        assert (row.status, row.metadata["original_doc_id"]) == ("failed", first.id)
        assert await backend.named("copy.md") is None


async def test_a_deleted_document_is_in_no_answer_and_its_shared_entities_stay(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, one=MARIE, two="Marie Curie taught at the Sorbonne in Paris.")
        doomed = (await backend.named("one.md")).id
        with pytest.raises(UnknownDocumentsError):
            await backend.delete([doomed, "doc-unknown"])
        assert await backend.named("one.md")
        await backend.delete([doomed])
        await idle(backend)
        assert await backend.named("one.md") is None
        assert files_of(await backend.evidence(ask("Marie Curie polonium"))) == {"two.md"}
        labels = await backend.labels()
        assert "Marie Curie" in labels
        assert "Pierre Curie" not in labels
        # The name is free again.
        await put(backend, one=MARIE)


async def test_a_cleared_workspace_is_empty_and_takes_the_same_documents_again(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE, ada=ADA)
        assert await backend.clear() == 2
        assert (await backend.page(PageWanted())).total == 0
        assert await backend.labels() == []
        assert (await backend.evidence(ask("Who discovered polonium?"))).empty
        await put(backend, marie=MARIE)
        await backend.clear_cache()


async def test_a_file_that_could_not_be_read_is_a_failed_row_with_its_reason(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        await backend.record_failure("in/scan.pdf", "The file is encrypted.", "track-9")
        (row,) = await backend.tracked("track-9")
        assert (row.file_path, row.status) == ("scan.pdf", "failed")
        assert row.error_msg == "The file is encrypted."
        assert await backend.retry_failed("track-10") == 0


async def test_the_list_is_filtered_sorted_and_cut(settings, keeping):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        texts = {f"note{n:02}": f"Note {n}: {ADA}" for n in range(12)}
        await put(backend, **texts)
        await backend.record_failure("bad.pdf", "The file is empty.", "track-9")
        wanted = PageWanted(
            page=2, page_size=10, statuses=("processed",), sort_field="file_path", descending=False
        )
        page = await backend.page(wanted)
        assert [row.file_path for row in page.rows] == ["note10.md", "note11.md"]
        assert (page.total, page.counts) == (12, {"processed": 12, "failed": 1})
        assert page.rows[0].created_at.tzinfo is not None
