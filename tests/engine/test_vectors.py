"""Vector search against a plain product, whatever came and went before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.engine.vectors import Vectors, encoded

DIMENSION = 4
ROWS = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=DIMENSION, max_size=DIMENSION)
CHANGES = st.lists(st.dictionaries(st.integers(1, 400), st.none() | ROWS, max_size=200), max_size=5)


def unit(row):
    return np.array(row, dtype=np.float32) / max(float(np.linalg.norm(row)), 1e-6)


@given(CHANGES, ROWS, st.integers(1, 20))
def test_the_nearest_rows_are_those_of_a_plain_product(changes, asked, limit):
    index, stored = Vectors(DIMENSION), {}
    for change in changes:
        # A chunk's vector is never changed: it comes once, and goes with its chunk.
        fresh = {n: row for n, row in change.items() if row is None or n not in stored}
        index.update({n: None if row is None else encoded(unit(row)) for n, row in fresh.items()})
        stored |= {n: unit(row) for n, row in fresh.items() if row is not None}
        stored = {n: row for n, row in stored.items() if fresh.get(n, row) is not None}
    scores = {
        n: float(row.astype(np.float16).astype(np.float32) @ unit(asked))
        for n, row in stored.items()
    }

    found = index.search(unit(asked), limit)

    assert len(index) == len(stored)
    expected = sorted(scores, key=lambda n: (-round(scores[n], 5), n))[:limit]
    assert [round(scores[n], 4) for n in found.chunks] == [round(scores[n], 4) for n in expected]
    assert np.allclose(found.scores, [scores[n] for n in found.chunks], atol=1e-5)
    assert len(set(found.chunks)) == len(found.chunks)


def test_equal_rows_are_ranked_in_order_of_insertion():
    index = Vectors(DIMENSION)
    index.update({n: encoded(unit([1, 0, 0, 0])) for n in (5, 3, 9, 1)})

    assert index.search(unit([1, 0, 0, 0]), 3).chunks == (1, 3, 5)


def test_a_row_that_went_is_not_found():
    index = Vectors(DIMENSION)
    index.update({1: encoded(unit([1, 0, 0, 0]))})
    index.update({2: encoded(unit([1, 0, 0, 0])), 1: None})

    assert index.search(unit([1, 0, 0, 0]), 3).chunks == (2,)


def test_many_rows_come_and_go_without_a_trace():
    index, random = Vectors(DIMENSION), np.random.default_rng(1)
    rows = {n: unit(random.standard_normal(DIMENSION)) for n in range(1, 2001)}
    for start in range(1, 2001, 100):
        index.update({n: encoded(rows[n]) for n in range(start, start + 100)})
        index.update(dict.fromkeys(range(start, start + 90)))

    kept = [n for n in rows if (n - 1) % 100 >= 90]
    found = index.search(unit([1, 2, 3, 4]), 2000)

    assert len(index) == len(kept) == 200
    assert sorted(found.chunks) == kept
    assert np.allclose(
        found.scores, [rows[n] @ unit([1, 2, 3, 4]) for n in found.chunks], atol=2e-3
    )
