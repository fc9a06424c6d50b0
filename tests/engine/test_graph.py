"""The graph's rankings against the plainest code that could compute them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.engine import Document, edges, graph_store, neighbourhood
from dsh_lightrag.engine.edges import Edge, Role
from dsh_lightrag.engine.graph_store import Graph

EDGES = st.lists(
    st.builds(
        Edge,
        st.integers(0, 9),
        st.integers(1, 5),
        st.sampled_from([Role.NAMED, Role.CERTAIN, Role.TITLE, Role.LINKED | Role.NAMED]),
    ),
    max_size=5,
    unique_by=lambda edge: edge.entity,
)
CHUNKS = st.dictionaries(st.integers(1, 40), EDGES, min_size=1, max_size=12).map(
    lambda found: dict(sorted(found.items()))
)
SEEDS = st.dictionaries(st.integers(0, 9), st.floats(0.5, 3), max_size=3)
COMMON = st.sets(st.integers(0, 9), max_size=3)


def dense(chunks, common):
    """Return edge weights as a matrix of chunks by entities, and each entity's rarity."""
    matrix = np.zeros((len(chunks), 10))
    for row, found in enumerate(chunks.values()):
        for edge in found:
            if edge.role == Role.NAMED and edge.entity in common:
                continue
            times = max(edge.count, 1 if Role.LINKED in edge.role else 0)
            times += 2 if Role.TITLE in edge.role else 0
            title = 3 if Role.TITLE in edge.role else 1
            matrix[row, edge.entity] = title * (1 + np.log(times))
    mentions = (matrix > 0).sum(axis=0)
    return matrix, np.log(1 + (len(chunks) - mentions + 0.5) / (mentions + 0.5))


def scores(ranking):
    return dict(zip(ranking.chunks, ranking.scores, strict=True))


@given(CHUNKS, COMMON, SEEDS)
def test_the_walk_is_the_sum_of_the_powers_of_a_matrix(chunks, common, seeds):
    matrix, rarity = dense(chunks, common)
    view = Graph({number: edges.pack(found) for number, found in chunks.items()}, common).view()
    rare = matrix * rarity
    from_chunk = rare / np.maximum(rare.sum(axis=1, keepdims=True), 1e-12)
    from_entity = matrix / np.maximum(matrix.sum(axis=0), 1e-12)
    begin = np.zeros(10)
    for entity, weight in seeds.items():
        begin[entity] = weight if entity < view.entities else 0
    begin /= max(begin.sum(), 1e-12)
    at_entity, expected = begin, np.zeros(len(chunks))
    for _ in range(6):
        at_chunk = 0.85 * from_entity @ at_entity
        expected += 0.15 * at_chunk
        at_entity = 0.85 * from_chunk.T @ at_chunk

    found = scores(view.ranked(view.walk(seeds, 0.85), 100))

    for number, value in zip(chunks, expected, strict=True):
        # What is less likely than 1e-4 is not followed further, at 22 places and in 12 steps.
        assert abs(found.get(number, 0) - value) < 22 * 12 * 1e-4


@given(CHUNKS, COMMON, SEEDS)
def test_one_hop_is_two_products_with_the_matrix_of_rare_names(chunks, common, seeds):
    matrix, rarity = dense(chunks, common)
    view = Graph({number: edges.pack(found) for number, found in chunks.items()}, common).view()
    rare = matrix * rarity
    rows = rare / (np.sqrt((rare**2).sum(axis=1, keepdims=True)) + 1e-6)
    begin = np.zeros(10)
    for entity, weight in seeds.items():
        begin[entity] = weight if entity < view.entities else 0
    first = rows @ (begin / max(np.linalg.norm(begin), 1e-12))
    second = rows.T @ first  # all chunks are among the first, there are so few
    second[begin > 0] = 0
    second /= max(np.linalg.norm(second), 1e-12)

    found = scores(view.one_hop(seeds, 100))

    for number, expected in zip(chunks, first + rows @ second, strict=True):
        assert abs(found.get(number, 0) - expected) < 1e-9


@pytest.mark.parametrize("share", [0, 10**9], ids=["appended", "in order"])
@given(chunks=CHUNKS, common=COMMON, seeds=SEEDS, data=st.data())
def test_a_graph_that_was_changed_is_the_graph_that_was_loaded(share, chunks, common, seeds, data):
    packed = {number: edges.pack(found) for number, found in chunks.items()}
    later = data.draw(st.sets(st.sampled_from(sorted(packed))))
    before = {n: b"" if n in later else p for n, p in packed.items() if n % 2 or n not in later}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graph_store, "_SHARE", share)  # edges stay where they were appended, or not
        graph = Graph(before | {99: b""}, {1, 2, 3}, few=0)
        graph.view()
        graph.update(
            {n: packed[n] for n in sorted(later)} | {99: None}, dict.fromkeys((1, 2, 3), False)
        )
        graph.update({}, dict.fromkeys(common, True))
        changed = graph.view()
        saved = Graph.of_arrays(graph.arrays(), common).view()
    loaded = Graph(packed, common).view()

    for view in (changed, saved):
        assert view.chunks == loaded.chunks
        for ranking in (
            lambda view: view.one_hop(seeds, 100),
            lambda view: view.ranked(view.walk(seeds, 0.85), 100),
        ):
            assert scores(ranking(view)) == pytest.approx(scores(ranking(loaded)), abs=1e-9)
        for entity in range(10):
            assert view.chunks_of(entity) == loaded.chunks_of(entity)
        assert view.entities_of(list(packed)) == {
            chunk: pytest.approx(found) for chunk, found in loaded.entities_of(list(packed)).items()
        }


@given(EDGES)
def test_edges_are_unpacked_as_they_were_packed(found):
    assert edges.unpack(edges.pack(found)) == found


def test_an_empty_graph_ranks_nothing():
    view = Graph({}, set()).view()

    assert view.one_hop({3: 1.0}, 10).chunks == ()
    assert view.ranked(view.walk({3: 1.0}, 0.85), 10).chunks == ()
    assert view.chunks_of(5) == []


def test_names_are_listed_by_how_often_they_stand_and_found_by_what_they_contain(engine):
    for text in ("We saw Marie Curie.", "So did Marie Curie, with Pierre Curie.", "Here Bohr sat."):
        engine.insert(Document(text))

    assert engine.popular_names(1) == ["Marie Curie"]
    assert engine.search_names("IE CUR") == ["Marie Curie"]
    assert set(engine.search_names("curie")) >= {"Marie Curie", "Pierre Curie"}
    assert engine.search_names("?!") == []


def test_around_a_name_stand_the_names_that_share_its_chunks(engine):
    engine.insert(Document("We know that Marie Curie met Niels Bohr."))
    engine.insert(Document("We know that Niels Bohr met Lise Meitner."))

    near, far = engine.around("marie curie"), engine.around("MARIE CURIE", depth=2)

    assert [entity.name for entity in near.entities] == ["Marie Curie", "Niels Bohr"]
    assert [(link.source, link.target, link.weight) for link in near.relations] == [
        ("Marie Curie", "Niels Bohr", 0.5)
    ]
    assert {entity.name for entity in far.entities} == {"Marie Curie", "Niels Bohr", "Lise Meitner"}
    assert engine.around("Marie Curie", depth=2, limit=2).truncated
    assert engine.around("nobody").entities == ()


def test_where_all_names_stand_together_the_strongest_relations_are_shown(engine, monkeypatch):
    monkeypatch.setattr(neighbourhood, "_RELATIONS_PER_ENTITY", 1)
    names = ["Marie Curie", "Niels Bohr", "Lise Meitner", "Otto Hahn"]
    engine.insert(Document(f"We know that {' met '.join(names)}."))
    engine.insert(Document("We know that Niels Bohr met Otto Hahn."))

    for found in (engine.most_named(), engine.around("Niels Bohr", depth=2)):
        assert len(found.entities) == len(found.relations) == 4
        assert found.truncated
        strongest = found.relations[0]
        assert {strongest.source, strongest.target} == {"Niels Bohr", "Otto Hahn"}
