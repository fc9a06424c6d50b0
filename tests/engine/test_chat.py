"""A chat model's graph: whatever it answers is made use of, or shown as the failure it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.engine import (
    ChatReply,
    Document,
    DocumentStatus,
    Engine,
    Mode,
    ModelFaultError,
)
from dsh_lightrag.engine.chat_extraction import extract, read_object

TOLD = {
    "entities": [
        {"name": "polonium", "type": "concept", "description": "An element."},
        {"name": "marie curie", "type": "PERSON", "description": "She found it."},
    ],
    "relations": [
        {
            "source": "Marie Curie",
            "target": "polonium",
            "description": "She found polonium.",
            "keywords": "discovery",
            "weight": 7,
        }
    ],
}
TEXT = "In 1898 Marie Curie found an element, and it was polonium."


class Scripted:
    """Answers from a list, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def complete(self, _instructions, text, _schema):
        self.asked.append(text)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return ChatReply(answer if isinstance(answer, str) else json.dumps(answer), 11)


@pytest.mark.parametrize(
    "answer",
    [
        '{"entities": [], "relations": []}',
        'Sure!\n```json\n{"entities": [], "relations": []}\n```\nDone.',
        '{"entities": [], "relations": [],}',
        '{"entities": [], "relations": [',
        '{"relations": [], "entities": [{"name": "a", "type": "b"}, {"name": "c',
    ],
)
def test_fences_talk_trailing_commas_and_a_cut_off_end_are_repaired(answer):
    assert read_object(answer).keys() <= {"entities", "relations"}


def test_what_is_complete_before_the_cut_is_kept():
    answer = '{"entities": [{"name": "Rome", "type": "LOCATION", "description": "x"}, {"name": "Pa'

    assert [found.name for found in extract(Scripted(answer), "t").entities] == ["Rome"]


@pytest.mark.parametrize("answer", ["", "no", "[1, 2]", "null", "{" * 100_000, "{]", '"{"'])
def test_an_answer_without_an_object_is_a_fault(answer):
    with pytest.raises(ModelFaultError):
        extract(Scripted(answer), "text")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "source", "target", "weight", "entities"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_no_shape_of_an_object_breaks_the_reader(entities, relations):
    found = extract(Scripted({"entities": entities, "relations": relations}), "text")

    assert all(entity.name for entity in found.entities)
    assert all(0 <= link.weight <= 1 for link in found.relations)


def test_what_a_model_told_is_merged_with_what_the_text_names(path):
    with Engine.open(path, chat=Scripted(TOLD)) as engine:
        id_ = engine.insert(Document(TEXT, source="a.txt")).document_id
        assert engine.document(id_).status == DocumentStatus.PENDING
        assert engine.query("Marie Curie", Mode.LOCAL).hits

        engine.catch_up()

        state = engine.document(id_)
        assert (state.status, state.tokens_spent) == (DocumentStatus.PROCESSED, 11)
        answer = engine.query("Did Marie Curie find polonium?", Mode.LOCAL)
    assert {(entity.name, entity.type) for entity in answer.entities} == {
        ("Marie Curie", "PERSON"),
        ("polonium", "CONCEPT"),
    }
    assert [(link.source, link.target, link.weight) for link in answer.relations] == [
        ("Marie Curie", "polonium", 1.0)
    ]


def test_a_type_other_than_other_and_the_first_description_win(path):
    answers = [
        {"entities": [{"name": "Rome", "type": "OTHER", "description": "first"}]},
        {"entities": [{"name": "ROME", "type": "LOCATION", "description": "second"}]},
    ]
    with Engine.open(path, chat=Scripted(*answers)) as engine:
        ids = [engine.insert(Document(f"Rome {n} is old.")).document_id for n in range(2)]
        engine.catch_up()
        both = engine.query("Rome", Mode.LOCAL).entities[0]
        engine.delete(ids[0])
        rest = engine.query("Rome", Mode.LOCAL).entities[0]

    assert (both.type, both.description) == ("LOCATION", "first")
    assert (rest.type, rest.description) == ("LOCATION", "second")


def test_a_bad_answer_is_tried_again_and_then_shown_with_its_document(path):
    model = Scripted("nonsense")
    with Engine.open(path, chat=model) as engine:
        id_ = engine.insert(Document(TEXT)).document_id
        progress = engine.catch_up()

        assert (len(model.asked), progress.failed, progress.pending) == (3, 1, 0)
        state = engine.document(id_)
        assert state.status == DocumentStatus.FAILED
        assert "JSON" in state.error
        assert engine.query("polonium").hits

        model.answers = [TOLD]
        assert engine.retry_failed() == 1
        engine.catch_up()
        assert engine.document(id_).status == DocumentStatus.PROCESSED


def test_a_fault_that_passes_leaves_no_trace(path):
    model = Scripted(ModelFaultError("busy", "wait"), TOLD)
    with Engine.open(path, chat=model) as engine:
        id_ = engine.insert(Document(TEXT)).document_id
        engine.catch_up()

        assert engine.document(id_).status == DocumentStatus.PROCESSED
        assert engine.document(id_).error == ""


def test_a_document_deleted_while_a_model_reads_it_stays_deleted(path):
    with Engine.open(path) as engine:
        pass

    class Deleting(Scripted):
        def complete(self, _instructions, text, _schema):
            engine.delete(id_)
            return super().complete(_instructions, text, _schema)

    with Engine.open(path, chat=Deleting(TOLD)) as engine:
        id_ = engine.insert(Document(TEXT)).document_id
        engine.catch_up()

        assert engine.documents() == []
        assert engine.query("Marie Curie polonium", Mode.LOCAL).hits == ()
        assert engine.verify() == []


def test_deleting_the_only_document_forgets_what_a_model_told(path):
    with Engine.open(path, chat=Scripted(TOLD)) as engine:
        id_ = engine.insert(Document(TEXT)).document_id
        engine.catch_up()
        engine.delete(id_)

        assert engine.query("Marie Curie polonium", Mode.LOCAL).entities == ()
        assert engine.verify() == []
