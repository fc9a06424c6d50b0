"""The indexes saved beside a base: mapped when they are its own, and never believed otherwise."""

from __future__ import annotations

import shutil

import pytest
from hash_embedder import HashEmbedder

from dsh_lightrag.engine import Document, Engine, Mode, indexes, sidecar
from dsh_lightrag.engine.indexes import Indexes

QUESTIONS = ("Marie Curie and Bohr", "polonium 3", "Person 7 met Person 9")


@pytest.fixture(autouse=True)
def _save_small_bases_too(monkeypatch):
    monkeypatch.setattr(indexes, "FEWEST_CHUNKS", 1)


def fill(engine, first, count):
    for number in range(first, first + count):
        text = f"We know that Person {number} met Person {number % 7} over polonium {number}."
        engine.insert(Document(text, title=f"Marie Curie {number % 3}", id=f"d{number}"))


def answers(engine):
    return [
        [(hit.chunk.id, round(hit.score, 9)) for hit in engine.query(question, mode, 20).hits]
        for question in QUESTIONS
        for mode in Mode
    ]


def opened(path):
    return Engine.open(path, embedder=HashEmbedder(dimension=8))


def a_base(path, count=30):
    with opened(path) as engine:
        fill(engine, 0, count)
        engine.catch_up()
        return answers(engine)


def plainly(path):
    """Answer as the tables do, without the file beside the base."""
    sidecar.path_of(path).unlink(missing_ok=True)
    with opened(path) as engine:
        assert not is_mapped(engine)
        return answers(engine)


def is_mapped(engine):
    return engine._indexes.keywords.postings is not None  # noqa: SLF001 - no answer tells it


def test_a_base_opened_from_the_file_beside_it_answers_as_before(tmp_path):
    path = tmp_path / "notes.base"
    before = a_base(path)

    with opened(path) as engine:
        assert is_mapped(engine)
        assert answers(engine) == before
    assert plainly(path) == before


def test_what_changed_since_the_file_was_saved_is_read_again(tmp_path, monkeypatch):
    path, copy = tmp_path / "notes.base", tmp_path / "old.index"
    a_base(path)
    monkeypatch.setattr(Indexes, "save", lambda *_: False)  # as a process that is killed
    shutil.copy(sidecar.path_of(path), copy)
    with opened(path) as engine:
        fill(engine, 30, 2)
        engine.delete("d3")
        engine.replace(Document("We know that Person 4 left Bohr.", id="d4"))
        engine.catch_up()
        expected = answers(engine)
    shutil.copy(copy, sidecar.path_of(path))

    with opened(path) as engine:
        assert is_mapped(engine)
        assert answers(engine) == expected
        assert engine.verify() == []
    assert plainly(path) == expected


def test_a_killed_process_leaves_a_file_that_is_brought_up_to_date(tmp_path, monkeypatch):
    path, killed = tmp_path / "notes.base", tmp_path / "killed.base"
    a_base(path)
    monkeypatch.setattr(Indexes, "save", lambda *_: False)
    with opened(path) as engine:
        fill(engine, 30, 1)
        engine.step()
        expected = answers(engine)
        for suffix in ("", "-wal", ".index"):  # what a kill would leave
            shutil.copy(f"{path}{suffix}", f"{killed}{suffix}")

    with opened(killed) as engine:
        assert is_mapped(engine)
        assert answers(engine) == expected


def test_the_file_of_a_restored_base_is_not_believed(tmp_path):
    """Both bases count the same changes; only the tokens tell them apart."""
    path, restored = tmp_path / "notes.base", tmp_path / "restored.base"
    a_base(path, 20)
    shutil.copy(path, restored)
    with opened(path) as engine:
        fill(engine, 100, 20)
        engine.catch_up()
    with opened(restored) as engine:
        fill(engine, 200, 20)
        engine.catch_up()
        expected = answers(engine)
    shutil.copy(sidecar.path_of(path), sidecar.path_of(restored))

    with opened(restored) as engine:
        assert not is_mapped(engine)
        assert answers(engine) == expected


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:0],
        lambda data: data[:10],
        lambda data: data[: len(data) // 2],
        lambda data: b"x" * len(data),
        lambda data: data[:60] + b"?" + data[61:],
        lambda data: data[:8] + b"\xff" + data[9:],
    ],
    ids=["empty", "ten bytes", "half", "foreign", "changed", "of another version"],
)
def test_a_spoilt_file_is_made_anew(tmp_path, spoil):
    path = tmp_path / "notes.base"
    before = a_base(path)
    beside = sidecar.path_of(path)
    beside.write_bytes(spoil(beside.read_bytes()))

    with opened(path) as engine:
        assert not is_mapped(engine)
        assert answers(engine) == before
        engine.catch_up()
        assert answers(engine) == before
    with opened(path) as engine:
        assert is_mapped(engine)


def test_a_base_that_is_reindexed_forgets_the_file(tmp_path):
    path = tmp_path / "notes.base"
    a_base(path)
    with Engine.open(path, embedder=HashEmbedder(dimension=16), reindex=True) as engine:
        assert not is_mapped(engine)
        engine.catch_up()
    with Engine.open(path, embedder=HashEmbedder(dimension=16)) as engine:
        assert is_mapped(engine)
        assert engine.query("polonium", Mode.NAIVE).hits


def test_what_is_written_while_the_index_is_made_is_in_it(tmp_path, monkeypatch):
    path = tmp_path / "notes.base"
    with opened(path) as engine:
        fill(engine, 0, 10)
        read = indexes.read

        def meanwhile(connection):
            made = read(connection)
            fill(engine, 10, 3)
            engine.delete("d2")
            return made

        monkeypatch.setattr(indexes, "read", meanwhile)
        while not is_mapped(engine):
            engine.step()
        engine.catch_up()
        before = answers(engine)

    assert plainly(path) == before


def test_a_file_that_cannot_be_written_costs_speed_and_nothing_else(tmp_path):
    path = tmp_path / "notes.base"
    in_the_way = tmp_path / "notes.base.index.new"
    in_the_way.mkdir()
    before = a_base(path)

    assert not sidecar.path_of(path).exists()
    assert plainly(path) == before
    in_the_way.rmdir()
    with opened(path) as engine:
        engine.catch_up()
    with opened(path) as engine:
        assert is_mapped(engine)
        assert answers(engine) == before


def test_a_file_that_could_not_be_written_is_written_once_it_can_be(tmp_path):
    path = tmp_path / "notes.base"
    in_the_way = tmp_path / "notes.base.index.new"
    in_the_way.mkdir()
    with opened(path) as engine:
        fill(engine, 0, 30)
        engine.catch_up()
        assert not sidecar.path_of(path).exists()
        in_the_way.rmdir()
    assert sidecar.path_of(path).exists()
