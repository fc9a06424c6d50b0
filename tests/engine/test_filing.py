"""Filing, refusing, promising deletions and clearing, with what the list says of each."""

from __future__ import annotations

import pytest

from dsh_lightrag.engine import (
    ChunkSizes,
    Document,
    DocumentExistsError,
    DocumentStatus,
    Engine,
    EngineOptions,
    Listing,
    Mode,
    UnknownDocumentError,
)

CURIE = Document("Marie Curie found polonium.", source="curie.txt", id="c", track="one")
NILE = Document(
    "We saw the Nile in Egypt.", source="nile.txt", id="n", track="one", title="The Nile"
)


def test_a_batch_is_filed_whole_or_not_at_all(engine):
    assert engine.file([CURIE, NILE]) == ["c", "n"]
    with pytest.raises(DocumentExistsError, match="id n"):
        engine.file([Document("Fresh text", id="f"), Document("Other text", id="n")])
    with pytest.raises(DocumentExistsError, match="id x"):
        engine.file([Document("a", id="x"), Document("b", id="x")])

    assert [state.id for state in engine.documents()] == ["n", "c"]
    assert engine.query("fresh text", Mode.NAIVE).hits == ()
    assert engine.verify() == []


def test_equal_texts_are_kept_once_also_within_a_batch(engine):
    first, second = engine.file([CURIE, Document(CURIE.text, source="b.txt", id="b", track="two")])

    twin = engine.document(second)
    assert first == "c"
    assert (twin.status, twin.original, twin.original_track) == (DocumentStatus.FAILED, "c", "one")
    assert [state.id for state in engine.tracked("two")] == [second]
    assert len(engine.query("polonium").hits) == 1


def test_a_title_is_linked_to_the_texts_of_its_own_batch(engine):
    engine.file([NILE, Document("I think the nile is long.", source="x", id="x")])

    found = engine.query("Tell me of The Nile", Mode.LOCAL)

    assert {hit.chunk.document_id for hit in found.hits if hit.seeds} == {"n", "x"}


def test_the_list_counts_sorts_and_pages(engine):
    engine.file([CURIE, NILE])
    engine.record_failure("broken.pdf", "It is empty.", "two")

    everything = engine.listed(Listing(order="source", descending=False))
    one = engine.listed(Listing(order="source", descending=False, offset=1, limit=1))
    failed = engine.listed(Listing(statuses=(DocumentStatus.FAILED,)))

    assert [state.source for state in everything.states] == ["broken.pdf", "curie.txt", "nile.txt"]
    assert [state.source for state in one.states] == ["curie.txt"]
    assert (one.total, failed.total) == (3, 1)
    assert failed.states[0].error == "It is empty."
    assert everything.counts == {DocumentStatus.PROCESSED: 2, DocumentStatus.FAILED: 1}


def test_a_promised_deletion_outlives_the_process_and_is_refused_whole(path):
    with Engine.open(path) as engine:
        engine.file([CURIE, NILE])
        with pytest.raises(UnknownDocumentError, match="zz"):
            engine.doom(["c", "zz"])
        assert engine.doomed() == []
        engine.doom(["c", "n"])
    with Engine.open(path) as engine:
        assert engine.doomed() == ["c", "n"]
        for id_ in engine.doomed():
            engine.delete_doomed(id_)
        assert (engine.doomed(), engine.documents(), engine.names()) == ([], [], [])
        assert engine.verify() == []


def test_a_cleared_base_has_nothing_in_memory_or_in_its_file(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        engine.file([CURIE, NILE])
        engine.catch_up()
        assert engine.clear() == 2

        for mode in Mode:
            assert engine.query("Did Marie Curie see the Nile?", mode).hits == ()
        assert engine.verify() == []
        assert engine.progress().chunks == 0
        engine.file([NILE])
        engine.catch_up()
        assert len(engine.query("nile").hits) == 1
    with Engine.open(path, embedder=embedder) as engine:
        assert [state.id for state in engine.documents()] == ["n"]
        assert len(engine.query("nile").hits) == 1
        assert engine.verify() == []


def test_documents_that_other_rules_cut_are_cut_anew_by_reindex_and_go_on_when_broken_off(
    path, embedder
):
    small = EngineOptions(chunks=ChunkSizes(16, 0))
    texts = [f"# Part\n\nNumber {n} is long. " + "More words follow. " * 40 for n in range(3)]
    with Engine.open(path, embedder=embedder) as engine:
        engine.file([Document(text, id=f"d{n}", track="t") for n, text in enumerate(texts)])
        engine.catch_up()
        before = engine.progress().chunks
        created = engine.document("d0").created_at
    with Engine.open(path, embedder=embedder, options=small) as engine:
        assert engine.outdated() == 3
        engine.catch_up()
        assert engine.progress().chunks == before
    with Engine.open(path, embedder=embedder, options=small, reindex=True) as engine:
        assert engine.document("d2").status != DocumentStatus.PROCESSED
        assert engine.progress().pending > 0
        assert engine.step() > 0
        assert engine.outdated() == 2
    with Engine.open(path, embedder=embedder, options=small) as engine:
        progress = engine.catch_up()

        assert (engine.outdated(), progress.pending) == (0, 0)
        assert progress.chunks > before
        state = engine.document("d0")
        assert (state.created_at, state.track) == (created, "t")
        assert {item.status for item in engine.documents()} == {DocumentStatus.PROCESSED}
        assert [engine.text(f"d{n}") for n in range(3)] == texts
        assert engine.verify() == []


def test_a_passage_that_is_cut_as_before_keeps_its_vector(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        engine.file([CURIE])
        engine.catch_up()
    asked = embedder.asked
    other = EngineOptions(chunks=ChunkSizes(200, 0))
    with Engine.open(path, embedder=embedder, options=other, reindex=True) as engine:
        engine.catch_up()
        assert engine.outdated() == 0
    assert embedder.asked == asked
