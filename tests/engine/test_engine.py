"""The engine through its front door: what is inserted is found, what is deleted is gone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading

import pytest

from dsh_lightrag.engine import (
    BaseCorruptError,
    BaseLockedError,
    BaseTooNewError,
    BaseUnusableError,
    Document,
    DocumentExistsError,
    DocumentStatus,
    Engine,
    EngineOptions,
    Mode,
    ModelFaultError,
    ModelMismatchError,
    Signal,
    UnknownDocumentError,
    keywords,
    local_extraction,
    writing,
)

CURIE = Document(
    "Marie Curie found polonium in Paris. She was born in Warsaw.",
    source="curie.txt",
    title="Marie Curie",
)
WARSAW = Document("Warsaw lies on the Vistula.", source="warsaw.txt", title="Warsaw")
VISTULA = Document("The Vistula flows into the Baltic Sea.", source="vistula.txt", title="Vistula")
POLAND = (CURIE, WARSAW, VISTULA)
RETRIEVING = [mode for mode in Mode if mode is not Mode.BYPASS]


def sources(answer):
    return [hit.chunk.source for hit in answer.hits]


@pytest.mark.parametrize("mode", RETRIEVING)
def test_inserted_text_is_found_at_once_in_every_mode(engine, mode):
    engine.insert(CURIE)

    assert sources(engine.query("Who found polonium?", mode)) == ["curie.txt"]


def test_bypass_retrieves_nothing(engine):
    engine.insert(CURIE)

    assert engine.query("Who found polonium?", Mode.BYPASS).hits == ()


@pytest.mark.parametrize("question", ["", " \n", "?!", "\u202e", "\ud800", '" OR NEAR( *', "\x00"])
def test_a_question_without_words_finds_nothing_and_harms_nothing(engine, question):
    engine.insert(CURIE)

    assert engine.query(question).hits == ()


def test_the_graph_finds_a_passage_that_shares_no_word_with_the_question(engine):
    for document in POLAND:
        engine.insert(document)
    for number in range(20):
        engine.insert(Document(f"Filler number {number} says nothing.", source="filler"))

    answer = engine.query("Where was Marie Curie born?")

    warsaw = next(hit for hit in answer.hits if hit.chunk.source == "warsaw.txt")
    assert Signal.KEYWORDS not in warsaw.placings
    assert {Signal.ENTITIES, Signal.RELATIONS} <= warsaw.placings.keys()
    assert "Warsaw" in warsaw.via
    assert answer.entities[0].name == "Marie Curie"
    assert answer.gate > 0


def test_local_mode_puts_what_the_graph_found_before_everything_else(engine):
    for document in POLAND:
        engine.insert(document)
    engine.insert(Document("where was it born, where was it born", source="words.txt"))

    found = sources(engine.query("Where was Marie Curie born?", Mode.LOCAL))

    assert found.index("warsaw.txt") < found.index("words.txt")


def test_a_question_that_names_nothing_gets_the_two_signal_answer_bit_for_bit(path, embedder):
    silent = EngineOptions(weights={Signal.VECTORS: 1.0, Signal.KEYWORDS: 1.0})
    with Engine.open(path, embedder=embedder) as three:
        for document in POLAND:
            three.insert(document)
        three.catch_up()
        answer = three.query("what flows into the sea of a country")
    with Engine.open(path, embedder=embedder, options=silent) as two:
        assert two.query("what flows into the sea of a country") == answer
    assert answer.gate == 0


def test_a_name_that_leads_to_no_other_passage_leaves_the_two_signal_answer_bit_for_bit(
    path, embedder
):
    """Keyword search has seen that name too; the graph would only count it twice."""
    with Engine.open(path, embedder=embedder) as engine:
        engine.insert(Document("Write the image with a Raspberry Pi at hand.", source="image"))
        engine.insert(Document("Give the board a fixed address.", source="address"))
        engine.catch_up()
        alone = engine.query("address for a Raspberry Pi", Mode.MIX)
        two = engine.query("address for a Raspberry Pi", Mode.NAIVE)
        friends = "Eben Upton, Jack Lang and Alan Mycroft"
        engine.insert(Document(f"They are {friends}, of the Raspberry Pi.", source="makers"))
        engine.insert(Document(f"We met {friends} in May.", source="visit"))
        engine.catch_up()
        leading = engine.query("address for a Raspberry Pi", Mode.MIX)

    assert (alone.gate, alone.hits) == (0.0, two.hits)
    # What the question speaks of is told all the same.
    assert "Raspberry Pi" in {entity.name for entity in alone.entities}
    assert leading.gate > 0
    assert "visit" in {hit.chunk.source for hit in leading.hits}


@pytest.mark.parametrize(
    ("title", "question", "found"),
    [
        ("the power of two", "who made the power of two?", True),
        ("Brand (play)", "Which poet wrote Brand?", True),
        ("Brand (play)", "which brand is the best?", False),
        ("Brand (play)", "WHICH BRAND IS THE BEST?", False),
        ("A very long walk home in deep snow", "a very long Walk home in deep snow", True),
    ],
)
def test_a_title_is_a_name_in_a_question_that_writes_all_of_it_or_gives_it_a_capital(
    engine, title, question, found
):
    engine.insert(Document("It is by Jan Nowak, and a brand of soap is named so.", title=title))
    engine.insert(Document("We met Jan Nowak in May.", source="author"))
    engine.insert(Document("this brand or that brand, each brand has its price.", source="soap"))
    engine.insert(Document("it has two times the power, in snow so deep: a long walk home, very."))

    answer = engine.query(question, Mode.LOCAL)

    assert (answer.gate > 0) is found
    assert any("Jan Nowak" in hit.via for hit in answer.hits) is found


def test_a_hit_adds_up_and_says_where_its_text_stands(engine):
    text = "# Poland\nCapital: Warsaw.\n\n# Norway\nCapital: Oslo, on the Oslofjord.\n" * 10
    id_ = engine.insert(Document(text, source="capitals.md")).document_id

    for hit in engine.query("Which capital is on the Oslofjord?").hits:
        assert hit.score == sum(placing.share for placing in hit.placings.values())
        assert engine.text(id_)[hit.chunk.start : hit.chunk.end] == hit.chunk.text


def test_a_term_that_very_many_chunks_have_is_asked_only_when_rarer_ones_are_few(
    engine, monkeypatch
):
    monkeypatch.setattr(keywords, "MOST_CHUNKS", 2)
    for word in ("red", "green", "blue"):
        engine.insert(Document(f"a {word} paper boat", source=word))

    assert sources(engine.query("paper boat of red and green", Mode.NAIVE)) == ["red", "green"]
    assert len(engine.query("paper boat", Mode.NAIVE).hits) == 3


def test_ids_depend_on_the_text_alone(tmp_path):
    def ids(name, documents):
        with Engine.open(tmp_path / name) as engine:
            for document in documents:
                engine.insert(document)
            return {
                (hit.chunk.document_id, hit.chunk.id)
                for hit in engine.query("Warsaw Vistula Curie").hits
            }

    assert ids("one", POLAND) == ids("two", reversed(POLAND))


def test_the_graph_does_not_depend_on_the_order_of_insertion(tmp_path):
    def found(name, documents):
        with Engine.open(tmp_path / name) as engine:
            for document in documents:
                engine.insert(document)
            hits = engine.query("Where was Marie Curie born?", Mode.HYBRID).hits
            return {hit.chunk.source: (round(hit.score, 12), set(hit.via)) for hit in hits}

    assert found("one", POLAND) == found("two", reversed(POLAND))


def test_the_same_document_is_stored_once(engine):
    first = engine.insert(CURIE)
    second = engine.insert(CURIE)

    assert (first.fresh, second.fresh) == (True, False)
    assert first.document_id == second.document_id
    assert len(engine.documents()) == 1


def test_another_text_under_a_stored_id_is_refused_and_nothing_changes(engine):
    engine.insert(Document("first text", id="a"))

    with pytest.raises(DocumentExistsError):
        engine.insert(Document("second text", id="a"))

    assert engine.text("a") == "first text"
    assert engine.query("second").hits == ()


def test_a_replaced_document_shows_only_its_new_text(engine):
    engine.insert(Document("The harbour of Gdansk.", id="a", title="Gdansk"))
    engine.insert(Document("A ship left gdansk at dawn.", id="b"))

    assert not engine.replace(
        Document("The mountains of Zakopane.", id="a", title="Zakopane")
    ).fresh

    assert [hit.chunk.text for hit in engine.query("harbour mountains").hits] == [
        "The mountains of Zakopane."
    ]
    assert sources(engine.query("Gdansk", Mode.LOCAL)) == [""]


def test_a_replaced_document_keeps_the_vectors_of_passages_that_did_not_change(path, embedder):
    same = "# One\n" + "Some long text about ships and harbours. " * 12
    with Engine.open(path, embedder=embedder) as engine:
        engine.insert(Document(same + "\n# Two\nold ending", id="a"))
        engine.catch_up()
        before = embedder.asked
        engine.replace(Document(same + "\n# Two\nnew ending", id="a"))
        engine.catch_up()

        assert embedder.asked - before == 1
        assert engine.document("a").status == DocumentStatus.PROCESSED


def test_a_deleted_document_leaves_nothing_behind(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        ids = [engine.insert(document).document_id for document in POLAND]
        engine.catch_up()
        for id_ in ids:
            engine.delete(id_)
        for mode in RETRIEVING:
            assert engine.query("Marie Curie Warsaw Vistula", mode).hits == ()

    with sqlite3.connect(path) as file:
        tables = ["document", "document_text", "chunk", "vector", "entity", "entity_word"]
        tables += ["mention", "title", "title_link", "word", "told", "relation"]
        rows = {name: file.execute(f"SELECT count(*) FROM {name}").fetchone() for name in tables}  # noqa: S608 - our own names
        words = file.execute("SELECT count(*) FROM keyword WHERE keyword MATCH 'warsaw'").fetchone()
    assert set(rows.values()) == {(0,)}
    assert words == (0,)


def test_deleting_one_document_keeps_what_another_contributed_too(engine):
    ids = [engine.insert(document).document_id for document in POLAND]
    engine.delete(ids[0])

    answer = engine.query("Vistula", Mode.LOCAL)

    assert set(sources(answer)) == {"warsaw.txt", "vistula.txt"}
    assert engine.query("Marie Curie").hits == ()


def test_a_replaced_document_keeps_the_links_to_the_title_it_keeps(engine):
    """Written in lower case, only the title tells that it is a name."""
    engine.insert(Document("They like Nowy Targ, they say, Nowy Targ in May.", source="name"))
    engine.insert(Document("The town of it.", id="a", title="Nowy Targ"))
    engine.insert(Document("They walked to nowy targ.", source="walk"))
    engine.replace(Document("The market of it.", id="a", title="Nowy Targ"))

    hits = {hit.chunk.source: hit for hit in engine.query("Nowy Targ", Mode.LOCAL).hits}

    assert Signal.ENTITIES in hits["walk"].placings
    assert engine.verify() == []


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_a_title_is_linked_whether_it_came_before_or_after_what_mentions_it(engine, order):
    documents = (
        Document("The town of it.", title="Nowy Targ"),
        Document("They walked to nowy targ.", source="walk"),
        Document("They like Nowy Targ, they say, Nowy Targ in May.", source="name"),
    )
    for number in order:
        engine.insert(documents[number])

    hits = {hit.chunk.source: hit for hit in engine.query("Nowy Targ", Mode.LOCAL).hits}

    assert Signal.ENTITIES in hits["walk"].placings


def test_a_capitalised_title_of_one_word_is_a_name_though_only_sentences_begin_with_it(engine):
    engine.insert(Document("Teutberga was a queen.", title="Teutberga"))
    engine.insert(Document("Rinse the rice.", title="how to wash it"))

    assert engine.query("Teutberga", Mode.LOCAL).gate == 1
    assert engine.query("rinse", Mode.LOCAL).gate == 0


def test_vectors_fade_as_far_as_the_graph_is_heard():
    options = EngineOptions(fading=0.5)

    assert options.heard(0.0)[Signal.VECTORS] == options.weights[Signal.VECTORS]
    assert options.heard(1.0)[Signal.VECTORS] == options.weights[Signal.VECTORS] / 2
    assert options.heard(0.5)[Signal.ENTITIES] == options.weights[Signal.ENTITIES] / 2
    assert options.heard(0.5)[Signal.KEYWORDS] == options.weights[Signal.KEYWORDS]


def test_vectors_do_not_fade_for_a_graph_without_weight():
    alone = EngineOptions(weights={Signal.VECTORS: 1.0, Signal.RELATIONS: 0.0})

    assert alone.heard(1.0)[Signal.VECTORS] == 1.0


def test_a_title_that_no_document_has_any_more_links_nothing(engine):
    id_ = engine.insert(Document("The town of it.", title="Nowy Targ")).document_id
    engine.insert(Document("They walked to nowy targ.", source="walk"))
    engine.delete(id_)

    answer = engine.query("nowy targ")

    assert sources(answer) == ["walk"]
    assert answer.hits[0].placings.keys() == {Signal.KEYWORDS}
    assert engine.verify() == []


def test_what_is_a_name_is_decided_anew_when_documents_go(engine):
    engine.insert(Document("They call it Polish, the best.", source="name"))
    ids = [
        engine.insert(Document(f"some polish for shoe {number}")).document_id for number in range(3)
    ]
    before = engine.query("polish", Mode.LOCAL)
    for id_ in ids:
        engine.delete(id_)
    after = engine.query("polish", Mode.LOCAL)

    assert (before.gate, after.gate) == (0.0, 1.0)


def test_deleting_an_unknown_document_says_so(engine):
    with pytest.raises(UnknownDocumentError):
        engine.delete("doc-nowhere")


def test_vectors_catch_up_later_and_only_then_is_a_document_processed(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        id_ = engine.insert(CURIE).document_id
        assert engine.document(id_).status == DocumentStatus.PENDING
        assert engine.query("polonium").pending == 1

        progress = engine.catch_up()

        assert (progress.chunks, progress.pending) == (1, 0)
        assert engine.document(id_).status == DocumentStatus.PROCESSED
        assert Signal.VECTORS in engine.query("polonium").hits[0].placings


def test_catching_up_goes_on_where_it_was_broken_off(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        for number in range(40):
            engine.insert(Document(f"Document number {number}"))
        engine.step()
    with Engine.open(path, embedder=embedder) as engine:
        assert 0 < engine.progress().to_embed < 40
        engine.catch_up()
    assert embedder.asked == 40


def test_without_an_embedder_a_document_is_processed_at_once(engine):
    id_ = engine.insert(CURIE).document_id

    assert engine.document(id_).status == DocumentStatus.PROCESSED


def test_an_embedder_that_fails_costs_its_signal_and_not_the_answer(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        engine.insert(CURIE)
        engine.catch_up()

        def fail(*_, **__):
            raise ModelFaultError("The endpoint is down.", "Start it.")

        embedder.embed = fail
        answer = engine.query("polonium")

    assert sources(answer) == ["curie.txt"]
    assert answer.faults == {Signal.VECTORS: "The endpoint is down."}


def test_another_embedding_model_is_refused_until_the_base_is_reindexed(path, embedder):
    other = type(embedder)(identity="hash-2", dimension=16)
    with Engine.open(path, embedder=embedder) as engine:
        engine.insert(CURIE)
        engine.catch_up()

    with pytest.raises(ModelMismatchError):
        Engine.open(path, embedder=other)
    with pytest.raises(ModelMismatchError):
        Engine.open(path)

    with Engine.open(path, embedder=other, reindex=True) as engine:
        assert sources(engine.query("polonium")) == ["curie.txt"]
        engine.catch_up()
    with Engine.open(path, embedder=other) as engine:
        assert Signal.VECTORS in engine.query("polonium").hits[0].placings


def test_what_was_inserted_is_found_the_same_after_reopening(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        for document in POLAND:
            engine.insert(document)
        engine.catch_up()
        before = [engine.query("Where was Marie Curie born?", mode) for mode in Mode]
    with Engine.open(path, embedder=embedder) as engine:
        assert [engine.query("Where was Marie Curie born?", mode) for mode in Mode] == before


def test_a_second_engine_on_the_same_base_is_refused(path):
    with Engine.open(path), pytest.raises(BaseLockedError):
        Engine.open(path)


def test_a_closed_base_says_so_and_can_be_opened_again(path):
    engine = Engine.open(path)
    engine.close()
    engine.close()

    with pytest.raises(BaseUnusableError):
        engine.query("anything")
    Engine.open(path).close()


def test_a_base_of_a_newer_version_is_refused_and_left_untouched(path):
    Engine.open(path).close()
    data = bytearray(path.read_bytes())
    data[60:64] = (99).to_bytes(4, "big")
    path.write_bytes(data)

    with pytest.raises(BaseTooNewError):
        Engine.open(path)

    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"no database at all" * 100,
        lambda data: data[: len(data) // 2],
        lambda data: data[:8192] + b"\xff" * 4096 + data[12288:],
        lambda data: data[:68] + b"\0\0\0\0" + data[72:],
        lambda data: data[:100] + bytes(100) + data[200:],
    ],
)
def test_a_damaged_or_foreign_file_is_refused_and_left_untouched(path, damage):
    with Engine.open(path) as engine:
        for document in POLAND:
            engine.insert(document)
    data = damage(path.read_bytes())
    path.write_bytes(data)

    with pytest.raises(BaseCorruptError):
        Engine.open(path)

    assert path.read_bytes() == data


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(BaseUnusableError):
        Engine.open(tmp_path / "nowhere" / "notes.base")


HOSTILE = {
    "lone surrogates": "Alpha \ud800 beta \udfff",
    "nul": "Alpha \x00 beta",
    "right to left": "Alpha \u202eatad\u202c beta שלום עולם",
    "emoji": "Alpha 👩‍👩‍👧‍👦 beta 🏳️‍🌈",
    "mixed scripts": "Alpha 知识图谱 граф ελληνικά beta العربية",
    "markup": "Alpha <script>alert(1)</script> [1] beta ### References\n[1] forged.txt",
    "query language": 'Alpha "beta" OR * NEAR( - ^ {} : AND',
    "carriage returns": "Alpha\r\nbeta\rgamma",
    "combining marks": "Alpha" + "\u0301" * 5000 + " beta",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_stored_found_and_deleted_like_any_other(engine, text):
    id_ = engine.insert(Document(text, source=text[:50], title=text[:50], id=text[:50])).document_id

    hit = engine.query("beta").hits[0]
    assert engine.text(id_)[hit.chunk.start : hit.chunk.end] == hit.chunk.text
    hit.chunk.text.encode()

    engine.delete(id_)
    assert engine.query("beta").hits == ()


def test_an_empty_document_is_stored_and_has_no_chunks(engine):
    id_ = engine.insert(Document(" \n ")).document_id

    state = engine.document(id_)
    assert (state.chunks, state.status) == (0, DocumentStatus.PROCESSED)


@pytest.mark.parametrize("where", ["extract", "insert"])
def test_a_long_insertion_is_broken_off_and_nothing_of_it_is_left(path, monkeypatch, where):
    room = {"extract": local_extraction, "insert": writing}[where]
    really = getattr(room, where)
    text = "\n\n".join(f"Marie Curie number {number} found polonium." for number in range(20_000))
    with Engine.open(path) as engine:
        engine.insert(Document("Short and whole.", id="short"))

        def breaking(*given):
            engine.break_off()
            return really(*given)

        with monkeypatch.context() as patched:
            patched.setattr(room, where, breaking)
            with pytest.raises(BaseUnusableError):
                engine.insert(Document(text, id="long"))
    with Engine.open(path) as engine:
        assert [state.id for state in engine.documents()] == ["short"]
        assert engine.verify() == []


def test_closing_waits_for_no_insertion_that_was_broken_off(path, monkeypatch):
    begun, read = threading.Event(), local_extraction.extract
    ended = []

    def slowly(text):
        begun.set()
        return read(text)

    def insert(engine):
        try:
            engine.insert(Document("Marie Curie found polonium.\n\n" * 100_000, id="long"))
        except BaseUnusableError as error:
            ended.append(error.mend)

    monkeypatch.setattr(local_extraction, "extract", slowly)
    engine = Engine.open(path)
    writer = threading.Thread(target=insert, args=(engine,))
    writer.start()
    assert begun.wait(30)
    engine.break_off()
    engine.close()
    writer.join(30)
    assert ended == ["Open the base again."]
    with Engine.open(path) as again:
        assert again.documents() == []


INTERRUPTED = """
import os, signal, sys, threading
from pathlib import Path
from dsh_lightrag.engine import Engine
from dsh_lightrag.engine.store import Store
LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30000000) "
with Engine.open(Path(sys.argv[1])):
    pass
store = Store(Path(sys.argv[1]), {})
try:
    with store.write() as connection:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        connection.execute(LONG + "SELECT count(*) FROM n").fetchone()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_that_comes_in_a_long_statement_is_not_lost(path):
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", INTERRUPTED, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "interrupted\n"
