"""Keyword search in memory against the base's own index, which is the plainest there is."""

from __future__ import annotations

import sqlite3
from importlib import resources

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lightrag.engine import keywords, postings
from dsh_lightrag.engine.keywords import Keywords
from dsh_lightrag.engine.postings import Postings

WORDS = [
    "run",
    "running",
    "runs",
    "Curie",
    "C++",
    "utf8",
    "граф",
    "知识图谱",
    "（一）",
    "the",
    "café",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
# Each step deletes some chunks, then inserts some.
STEPS = st.lists(st.tuples(st.sets(st.integers(1, 40), max_size=4), st.lists(TEXTS, max_size=6)))
QUESTIONS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def a_base():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema = resources.files("dsh_lightrag.engine").joinpath("schema.sql")
    connection.executescript(schema.read_text(encoding="utf-8"))
    return connection


def changed(connection, texts, step, memory=None):
    """Delete and insert in the base, and in the index in memory if there is one."""
    gone, coming = step
    gone &= texts.keys()
    keywords.remove(connection, [(number, texts.pop(number)) for number in sorted(gone)])
    first = changed.last + 1
    fresh = dict(enumerate(coming, start=first))
    changed.last += len(coming)
    texts |= fresh
    change = dict.fromkeys(gone) | keywords.add(connection, fresh.items())
    if memory is not None:
        memory.update(change)


def asked(memory, connection, question):
    among = list(range(1, 60, 2))
    return (
        memory.search(connection, question, 10),
        memory.search_among(connection, question, ["Curie"], among),
    )


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS, QUESTIONS)
def test_both_indexes_rank_alike_to_the_last_bit(before, after, question):
    connection, texts, changed.last = a_base(), {}, 0
    for step in before:
        changed(connection, texts, step)
    memory, plain = Keywords(), Keywords()
    memory.postings = Postings(postings.read(connection))

    assert asked(memory, connection, question) == asked(plain, connection, question)
    for step in after:
        changed(connection, texts, step, memory)
        assert asked(memory, connection, question) == asked(plain, connection, question)

    memory.postings = Postings(memory.postings.arrays(memory.postings.held()))
    assert asked(memory, connection, question) == asked(plain, connection, question)
    connection.close()


def test_a_search_sees_the_chunks_that_were_there_when_it_began():
    memory = Postings(postings.read(a_base()))
    memory.update({1: [b"curi"], 2: [b"curi", b"bohr"]})
    snapshot = memory._snapshot  # noqa: SLF001 - what a search that is under way holds
    memory.update({1: None, 3: [b"curi"]})

    scores = memory._scores(snapshot, [b"curi"])  # noqa: SLF001 - as above
    assert scores.nonzero()[0].tolist() == [0, 1]
    assert memory.search([b"curi"], 5).chunks == (3, 2)


def test_an_empty_index_ranks_nothing():
    memory = Postings(postings.read(a_base()))

    assert memory.search([b"curi"], 5).chunks == ()
    assert memory.search_among([b"curi"], [1, 2]).chunks == ()
    assert Postings(memory.arrays(memory.held())).search([b"curi"], 5).chunks == ()
