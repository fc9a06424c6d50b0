"""The background worker and many threads at once."""

from __future__ import annotations

import threading
import time

from dsh_lightrag.engine import (
    BaseUnusableError,
    Document,
    DocumentStatus,
    Engine,
    Mode,
    ModelFaultError,
    ModelUnavailableError,
    Worker,
)

DOWN = [(DocumentStatus.FAILED, "The endpoint is down.")]


def until(condition):
    """Wait for something that another thread does, for at most ten seconds."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_worker_gives_vectors_to_what_is_inserted_while_it_runs(path, embedder):
    with Engine.open(path, embedder=embedder) as engine, Worker(engine):
        for number in range(5):
            engine.insert(Document(f"Document {number}"))
            until(lambda: engine.progress().pending == 0)


def test_a_worker_survives_a_model_that_is_down_and_says_so(path, embedder):
    answering, embed = False, embedder.embed

    def sometimes(texts, *, query):
        if not answering:
            raise ModelUnavailableError("The endpoint is down.", "Start it.")
        return embed(texts, query=query)

    embedder.embed = sometimes
    with Engine.open(path, embedder=embedder) as engine, Worker(engine, rest=0.01) as worker:
        engine.insert(Document("A document"))
        until(lambda: worker.fault is not None)
        assert engine.query("document").hits
        until(lambda: [(s.status, s.error) for s in engine.documents()] == DOWN)

        answering = True
        until(lambda: engine.progress().pending == 0 and worker.fault is None)
        assert engine.documents()[0].status == DocumentStatus.PROCESSED


def test_a_bug_in_a_step_is_a_fault_without_its_words_and_the_work_goes_on(path, embedder):
    broken, embed = True, embedder.embed

    def sometimes(texts, *, query):
        if broken:
            raise ZeroDivisionError(*texts)
        return embed(texts, query=query)

    embedder.embed = sometimes
    with Engine.open(path, embedder=embedder) as engine, Worker(engine, rest=0.01) as worker:
        engine.insert(Document("A secret document"))
        until(lambda: worker.fault is not None)
        assert "ZeroDivisionError" in worker.fault.problem
        assert "secret" not in str(worker.fault)

        broken = False
        until(lambda: engine.progress().pending == 0 and worker.fault is None)


def test_a_text_that_a_model_refuses_is_given_up_and_holds_up_no_other(path, embedder):
    embed = embedder.embed

    def choosy(texts, *, query):
        if any("poison" in text for text in texts):
            raise ModelFaultError("The model refuses the text.", "Change it.")
        return embed(texts, query=query)

    embedder.embed = choosy
    with Engine.open(path, embedder=embedder) as engine, Worker(engine):
        ids = [
            engine.insert(Document(f"Text {n} {'poison' * (n == 1)}")).document_id
            for n in (0, 1, 2)
        ]
        until(lambda: engine.progress().pending == 0)
        states = [engine.document(id_) for id_ in ids]

        assert [state.status.value for state in states] == ["processed", "failed", "processed"]
        assert states[1].error == "The model refuses the text."

        embedder.embed = embed
        assert engine.retry_failed() == 1
        until(lambda: engine.document(ids[1]).status == DocumentStatus.PROCESSED)
        assert engine.verify() == []


def test_a_worker_closes_while_it_sleeps(path, embedder):
    with Engine.open(path, embedder=embedder) as engine:
        worker = Worker(engine).start()
        time.sleep(0.05)
        worker.close()


def test_questions_are_answered_while_documents_come_and_go(path, embedder):
    stop, faults = threading.Event(), []

    def ask():
        while not stop.is_set():
            try:
                for mode in Mode:
                    for hit in engine.query("What does the steady document say?", mode).hits:
                        assert hit.chunk.text in {"The steady document.", "A fleeting document."}
            except Exception as fault:  # noqa: BLE001 - whatever it is, the test must see it
                faults.append(fault)
                return

    with Engine.open(path, embedder=embedder) as engine, Worker(engine):
        engine.insert(Document("The steady document.", title="Steady"))
        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        for number in range(25):
            engine.insert(Document("A fleeting document.", id=str(number), title=f"Fleet {number}"))
            engine.delete(str(number))
            gone = engine.query("fleeting", Mode.NAIVE).hits
            assert [hit.chunk.text for hit in gone if "keywords" in hit.placings] == []
        stop.set()
        for asker in askers:
            asker.join()
        assert faults == []
        assert engine.verify() == []


def test_a_worker_stops_when_its_base_is_closed_under_it(path, embedder):
    engine = Engine.open(path, embedder=embedder)
    engine.insert(Document("A document"))
    engine.close()
    worker = Worker(engine).start()
    until(lambda: worker.fault is not None)
    worker.close()

    assert isinstance(worker.fault, BaseUnusableError)
