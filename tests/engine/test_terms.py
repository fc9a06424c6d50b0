"""Terms and names: what a question must find, in every script."""

from __future__ import annotations

import pytest

from dsh_lightrag.engine import names
from dsh_lightrag.engine.local_extraction import Uses, extract, is_name, spelling_counts
from dsh_lightrag.engine.terms import query_terms, terms


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("知识图谱", "谷歌在2012年提出知识图谱的概念"),
        ("图谱", "谷歌在2012年提出知识图谱的概念"),
        ("東京", "東京タワーは日本の電波塔である"),
        ("지식", "지식은 힘이다"),
        ("граф", "ГРАФ знаний"),
        ("еж", "Ёж живёт в лесу"),
        ("cafe", "le Café de Flore"),
        ("strasse", "die lange Straße"),
        ("नमस्ते", "उसने नमस्ते कहा"),
        ("user name", "call getUserName() first"),
        ("snake case", "a snake_case identifier"),
        ("C++", "written in C++ and C#"),
        ("C#", "written in C++ and C#"),
        ("utf8", "the UTF-8 encoding"),
        ("obrien", "Flann O’Brien wrote it"),
        ("king", "The King's Speech"),
        ("file", "the ﬁle is here"),
    ],
)
def test_a_question_shares_every_term_with_the_text_that_answers_it(asked, text):
    assert set(query_terms(asked)) <= set(terms(text))


def test_c_and_c_plus_plus_are_different_terms():
    assert terms("C++") == ["c++"]
    assert terms("C") == ["c"]


def test_stop_words_are_asked_for_only_when_there_is_nothing_else():
    assert query_terms("Who was the king of it?") == ["king"]
    assert query_terms("The Who") == ["the", "who"]


def test_text_without_words_has_no_terms():
    assert terms("\ufffd \u202e ... 😀 \n") == []


def test_names_are_one_whatever_their_case_accents_and_marks():
    assert names.key("Lothair II.") == names.key("LOTHAIR ii") == "lothair ii"
    assert names.key("Bråk’s") == names.key("brak")


def test_a_title_is_known_without_the_parenthesis_that_tells_it_from_others():
    assert names.title_key("Theodred II (Bishop of Elmham)") == "theodred ii"


def test_a_title_of_many_words_is_no_name():
    assert names.title_key("How a graph of names may help us find what we have lost at sea") == ""


def test_the_longest_known_name_wins_and_none_lies_inside_it():
    known = {"new york", "york", "new york city", "city hall"}

    found = names.longest_matches(names.words("Is New York City Hall in York?"), known.__contains__)

    assert found == ["new york city", "york"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "She was a queen of Lotharingia by marriage to Lothair II.",
            {"lotharingia", "lothair ii"},
        ),
        ("Мария Кюри открыла полоний в Париже", {"мария кюри", "париже"}),
        ("Η Αθήνα είναι πόλη", {"η αθηνα"}),
        ("《红楼梦》的作者是曹雪芹", {"红 楼 梦", "曹 雪 芹"}),
        ("東京タワーは日本の電波塔である", {"電 波 塔"}),
        ("القاهرة عاصمة مصر", {"القاهرة"}),
        ("we train with gradient descent, then stop", {"gradient descent"}),
    ],
)
def test_names_are_found_in_every_script(text, expected):
    assert expected <= {names.key(found.name) for found in extract(text).entities}


def test_a_name_keeps_its_spelling_and_is_counted():
    found = {entity.name: entity.count for entity in extract("Rome fell. Rome rose.").entities}

    assert found == {"Rome": 2}


def test_both_sides_of_an_and_are_names_too():
    found = {entity.name for entity in extract("by Simon and Garfunkel.").entities}

    assert found == {"Simon and Garfunkel", "Simon", "Garfunkel"}


def test_what_a_collection_mostly_writes_in_lower_case_is_no_name():
    assert is_name("rome", {"rome": Uses(10, 3, 1)})
    assert not is_name("having", {"having": Uses(10, 4, 1)})
    assert is_name("royal society", {"royal": Uses(4, 3), "society": Uses(4, 2)})
    assert not is_name("having society", {"having": Uses(10, 9), "society": Uses(10, 6)})


def test_what_is_capitalised_only_where_sentences_begin_is_no_name():
    used = spelling_counts("Rinse the rice. Rinse it well, says Anna: Rinse it.")

    assert used["rinse"] == Uses(3, 0, 0)
    assert used["anna"] == Uses(1, 0, 1)
    assert not is_name("rinse", used)
    assert is_name("anna", used)


@pytest.mark.parametrize("text", ["A" * 100_000, "A " * 50_000, "A.B." * 30_000, "知" * 100_000])
def test_monotonous_text_is_read_in_linear_time(text):
    extract(text)
    terms(text)
