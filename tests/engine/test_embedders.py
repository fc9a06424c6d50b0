"""The offline model: the file that was tested, and rows that mean something."""

from __future__ import annotations

import numpy as np
import pytest

from dsh_lightrag.engine import (
    Document,
    Engine,
    MiniLM,
    Mode,
    ModelFaultError,
    WordTable,
    embedders,
)
from dsh_lightrag.engine.embedders import checked_bytes, unit_rows


@pytest.fixture(scope="module")
def minilm():
    return MiniLM(threads=1)


def test_texts_of_one_meaning_are_nearer_than_others(minilm):
    rows = minilm.embed(
        ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates fell."],
        query=False,
    )

    assert rows.shape == (3, minilm.dimension)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2]


def test_a_row_does_not_depend_on_the_texts_beside_it(minilm):
    texts = ["short", "a somewhat longer text " * 8, "知识图谱", "", "x" * 10_000]

    together = minilm.embed(texts, query=False)
    alone = np.vstack([minilm.embed([text], query=True) for text in texts])

    assert np.allclose(together, alone, atol=2e-2)  # int8 weights see the batch's own range


def test_the_published_vector_of_a_sentence_is_met(minilm):
    """First numbers of all-MiniLM-L6-v2 for the sentence of its own model card."""
    row = minilm.embed(["This is an example sentence"], query=False)[0]

    assert np.allclose(row[:3], [0.0676, 0.0635, 0.0487], atol=0.03)


def test_a_changed_model_file_is_refused(monkeypatch, tmp_path):
    changed = tmp_path / "model.onnx"
    changed.write_bytes(b"another model")
    monkeypatch.setattr(embedders, "model_path", lambda: changed)

    with pytest.raises(ModelFaultError):
        MiniLM()
    with pytest.raises(ModelFaultError):
        checked_bytes(b"data", "0" * 64, "A file")


@pytest.mark.parametrize(
    "rows", [np.zeros((2, 3)), np.zeros((1, 4)), np.array([[np.nan] * 3]), np.array([[np.inf] * 3])]
)
def test_rows_that_cannot_be_compared_are_refused(rows):
    with pytest.raises(ModelFaultError):
        unit_rows(rows, 1, 3)


def test_a_question_finds_what_it_means_without_sharing_a_word(path, minilm):
    with Engine.open(path, embedder=minilm) as engine:
        engine.insert(Document("The kitten naps on the couch.", id="pet"))
        engine.insert(Document("Interest rates fell again.", id="bank"))
        engine.catch_up()

        hits = engine.query("sleeping cats", Mode.NAIVE).hits

    assert hits[0].chunk.document_id == "pet"


def test_the_static_table_tells_near_from_far_and_needs_no_network():
    rows = WordTable().embed(["a small cat", "a little kitten", "interest rates", " "], query=True)

    assert rows.shape == (4, WordTable.dimension)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert not rows[3].any()
