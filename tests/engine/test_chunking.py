"""Chunks: slices that follow the text's structure, never too long, never losing a character."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.engine.chunking import ChunkSizes, count_tokens, split

SMALL = ChunkSizes(tokens=16, overlap=6)
TEXTS = st.text(alphabet=st.sampled_from("ab. \n#—,知図ю😀`!?。-\u202e"), max_size=400)


@given(TEXTS, st.sampled_from([SMALL, ChunkSizes(tokens=8, overlap=0), ChunkSizes()]))
def test_chunks_are_ordered_slices_of_bounded_size_that_hold_every_visible_character(text, sizes):
    pieces = split(text, sizes)

    covered = set()
    for piece in pieces:
        assert text[piece.start : piece.end].strip() == text[piece.start : piece.end] != ""
        assert piece.tokens <= sizes.tokens
        assert count_tokens("".join(text[piece.start : piece.end].split())) <= sizes.tokens
        covered.update(range(piece.start, piece.end))
    assert all(index in covered for index, mark in enumerate(text) if not mark.isspace())
    starts = [piece.start for piece in pieces]
    ends = [piece.end for piece in pieces]
    assert starts == sorted(set(starts))
    assert ends == sorted(set(ends))


def test_a_heading_begins_a_chunk_and_is_remembered_with_the_headings_above_it():
    text = (
        "# Metals\nIron is a metal that people have used for a long time indeed.\n"
        "## Gold\nGold does not rust and was always dear to kings and thieves alike.\n"
    )

    pieces = split(text, SMALL)

    assert [piece.heading for piece in pieces if text[piece.start] == "#"] == [
        "Metals",
        "Metals > Gold",
    ]


def test_a_hash_inside_a_code_fence_is_no_heading():
    pieces = split("# Setup\n```\n# install it\npip install x\n```\nDone.\n", ChunkSizes())

    assert [piece.heading for piece in pieces] == ["Setup"]


def test_the_end_of_a_chunk_is_repeated_at_the_start_of_the_next():
    text = "One two three four. Five six seven. Eight nine ten. Eleven twelve thirteen. Last one."

    pieces = split(text, SMALL)

    assert all(next_.start < piece.end for piece, next_ in pairwise(pieces))


def test_sentences_end_without_spaces_in_chinese():
    pieces = split("知识图谱连接实体。检索引擎回答问题。" * 3, ChunkSizes(tokens=20, overlap=0))

    assert [piece.end - piece.start for piece in pieces] == [18, 18, 18]


@pytest.mark.parametrize("unit", ["word ", "知", "a,", "\u202e", "a" + 99 * " "])
def test_ten_megabytes_on_one_line_are_cut_in_linear_time(unit):
    text = unit * (10_000_000 // len(unit.encode()))

    begun = time.process_time()
    pieces = split(text, ChunkSizes())

    assert time.process_time() - begun < 40
    assert max(piece.tokens for piece in pieces) <= 240
    assert max(piece.end - piece.start for piece in pieces) < 5_000


@pytest.mark.parametrize(("tokens", "overlap"), [(4, 0), (100, 51), (100, -1)])
def test_sizes_that_could_not_make_progress_are_refused(tokens, overlap):
    with pytest.raises(ValueError, match="at least 8 tokens"):
        ChunkSizes(tokens=tokens, overlap=overlap)
