"""Names of entities: the form under which they are one, and where they stand in a question.

A name's key is its words without case, accents, punctuation and a possessive, one space between
them; a character of an unspaced script is a word of its own. Questions are read once: at each
word the longest known name wins, and one name never lies inside another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsh_lightrag.engine.scripts import INSIDE, UNSPACED, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

MAX_WORDS = 6  # a longer run of capitals is a sentence, not a name
MAX_CHARACTERS = 12  # the same for unspaced scripts, whose words are single characters here
MAX_TITLE_WORDS = 12  # a title is a name by its place, and names are looked up no longer than this
_POSSESSIVE = re.compile(r"['’]s\b")
_WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W{UNSPACED}]|[{INSIDE}])+")
_PARENTHESIS = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")

# Words that never are a name on their own, nor begin or end one.
STOP_WORDS = frozenset(
    (
        "the a an in on at he she it his her its they this that these those after before when "
        "while during for from with by as and but or if is was were who whom which what where why "
        "how there their then both also however although since until under following other "
        "another some many most several one two three four five first second i we you our my "
        "january february march april may june july august september october november december "
        "monday tuesday wednesday thursday friday saturday sunday"
    ).split()
)


def words(text: str) -> list[str]:
    """Return the words of a text as keys spell them."""
    return _WORD.findall(_POSSESSIVE.sub("", fold(text)))


def key(name: str) -> str:
    """Return the form under which names are the same; empty if nothing of it is a word."""
    return " ".join(words(name))


def title_key(title: str) -> str:
    """Return the key of a title without the parenthesis that tells it from its namesakes."""
    found = words(_PARENTHESIS.sub("", title))
    return " ".join(found) if len(found) <= MAX_TITLE_WORDS else ""


def shown_title(title: str) -> str:
    """Return a title as people read it, without that parenthesis."""
    return _PARENTHESIS.sub("", title)


def is_short(found: Collection[str]) -> bool:
    """Tell whether so many words can be a name."""
    if any(len(word) > 1 for word in found):
        return len(found) <= MAX_WORDS
    return len(found) <= MAX_CHARACTERS


def spans(found: list[str], longest: int) -> Iterator[tuple[int, int, str]]:
    """Yield every run of at most `longest` words as (start, end, key)."""
    for start in range(len(found)):
        name = found[start]
        yield start, start + 1, name
        for end in range(start + 2, min(start + longest, len(found)) + 1):
            name = f"{name} {found[end - 1]}"
            yield start, end, name


def longest_matches(
    found: list[str], accepts: Callable[[str], bool], longest: int = MAX_CHARACTERS
) -> list[str]:
    """Return the known names in a question, long ones first; none lies inside another.

    The work grows with the length of the question alone, never with the number of names.
    """
    by_length: dict[int, list[tuple[int, int, str]]] = {}
    for start, end, name in spans(found, longest):
        by_length.setdefault(end - start, []).append((start, end, name))
    taken = [False] * len(found)
    matches: dict[str, None] = {}
    for length in sorted(by_length, reverse=True):
        for start, end, name in by_length[length]:
            if any(taken[start:end]) or not accepts(name):
                continue
            matches[name] = None
            taken[start:end] = [True] * length
    return list(matches)
