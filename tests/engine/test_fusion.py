"""Fusion: the sum of weight / (60 + rank), of chunk numbers and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.engine.fusion import followed, fuse
from dsh_lightrag.engine.model import Ranking, Signal

RANKINGS = st.dictionaries(
    st.sampled_from(list(Signal)),
    st.lists(st.integers(1, 30), unique=True, max_size=12).map(
        lambda chunks: Ranking(tuple(chunks), tuple(1.0 / (n + 1) for n in range(len(chunks))))
    ),
)
EQUAL = dict.fromkeys(Signal, 1.0)


def test_a_chunk_that_two_signals_find_beats_one_that_either_puts_first():
    fused = fuse(
        {
            Signal.VECTORS: Ranking((1, 3), (0.9, 0.8)),
            Signal.KEYWORDS: Ranking((2, 3), (7.0, 5.0)),
        },
        EQUAL,
    )

    assert [item.chunk for item in fused] == [3, 1, 2]
    assert fused[0].score == 1 / 62 + 1 / 62
    assert fused[0].placings[Signal.KEYWORDS].rank == 2
    assert fused[0].placings[Signal.KEYWORDS].score == 5.0


@given(RANKINGS)
def test_a_signal_without_weight_is_as_if_it_were_not_there(rankings):
    silent = EQUAL | {Signal.RELATIONS: 0.0}
    without = {signal: ranking for signal, ranking in rankings.items() if signal != "relations"}

    assert fuse(rankings, silent) == fuse(without, EQUAL)


@given(RANKINGS, st.integers(0, 9))
def test_a_limit_cuts_the_list_and_changes_nothing_else(rankings, limit):
    assert fuse(rankings, EQUAL, limit=limit) == fuse(rankings, EQUAL)[:limit]


@given(RANKINGS)
def test_scores_are_the_sum_of_their_shares_and_fall(rankings):
    fused = fuse(rankings, EQUAL)

    assert all(
        item.score == sum(placing.share for placing in item.placings.values()) for item in fused
    )
    assert [item.score for item in fused] == sorted((item.score for item in fused), reverse=True)
    assert {item.chunk for item in fused} == {
        chunk for ranking in rankings.values() for chunk in ranking.chunks
    }


@given(RANKINGS, RANKINGS)
def test_what_follows_comes_behind_and_nothing_comes_twice(first, then):
    before, after = fuse(first, EQUAL), fuse(then, EQUAL)

    both = followed(before, after)

    assert both[: len(before)] == before
    assert len({item.chunk for item in both}) == len(both)
    assert {item.chunk for item in both} == {item.chunk for item in before + after}
    assert [item.score for item in both] == sorted((item.score for item in both), reverse=True)
