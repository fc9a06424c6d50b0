"""The words that keyword search indexes and looks up, the same for documents and questions.

A text becomes a list of terms: words without case and accents; parts of `camelCase`,
`snake_case`, dotted and numbered names beside the whole; pairs of neighbouring characters where a
script writes no spaces. English endings are stripped later, by the index itself.
"""

from __future__ import annotations

import re

from dsh_lightrag.engine.scripts import INSIDE, UNSPACED, UNSPACED_RUN, fold

# Terms change with this number, and an index built with another one is rebuilt.
VERSION = 1

_LONGEST = 64  # a longer word is noise (base64, a hash); its head still finds it
_LETTER = rf"(?:[^\W_{UNSPACED}]|[{INSIDE}])"
_PLAIN = rf"{_LETTER}+(?:\+\+|\#)?"
_TOKEN = re.compile(rf"[{UNSPACED}]+|{_PLAIN}(?:['’.\-_/:@]+{_PLAIN})*")
_PART = re.compile(_PLAIN)
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
# "fooBar" → foo Bar, "HTTPServer" → HTTP Server, "utf8" → utf 8.
_HUMP = re.compile(
    r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
)

# Words that say nothing about the subject of a question. They are indexed, not asked for.
STOP_WORDS = frozenset(
    (
        "a about after again all also am an and any are as at be because been before being but by "
        "can could did do does doing for from had has have having he her here hers him his how i "
        "if in into is it its itself just me more most my no nor not now of off on once only or "
        "other our out over own same she should so some such than that the their theirs them then "
        "there these they this those through to too under until up very was we were what when "
        "where which while who whom why will with would you your yours"
    ).split()
)


def terms(text: str) -> list[str]:
    """Return the terms of a text in reading order; parts and pairs come with their whole."""
    found: list[str] = []
    for word in _TOKEN.findall(text):
        if word.isascii() and word.isalpha() and word[1:].islower():
            found.append(word.lower()[:_LONGEST])  # nine words out of ten
        elif UNSPACED_RUN.match(word):
            found += _pairs(fold(word))
        else:
            _add_word(found, word)
    return found


def query_terms(text: str) -> list[str]:
    """Return the distinct terms to look up, without stop words unless there is nothing else."""
    distinct = list(dict.fromkeys(terms(text)))
    return [term for term in distinct if term not in STOP_WORDS] or distinct


def _add_word(found: list[str], word: str) -> None:
    """Add a word, and its parts when it is put together from several."""
    parts = _PART.findall(_POSSESSIVE.sub("", word[: 4 * _LONGEST]))
    found.append("".join(map(fold, parts))[:_LONGEST])
    pieces = [piece for part in parts for piece in _humps(part)]
    if len(pieces) > 1:
        found += (fold(piece)[:_LONGEST] for piece in pieces)


def _humps(part: str) -> list[str]:
    """Return the words inside one word: none but itself unless case or digits change within."""
    if part.islower() or part[1:].islower() or part.isdigit():
        return [part]
    return [piece for piece in _HUMP.split(part) if piece]


def _pairs(run: str) -> list[str]:
    """Return neighbouring pairs of an unspaced run, and its single characters.

    Pairs tell words apart; single characters let a one-character question find its word.
    """
    return [run[index : index + 2] for index in range(len(run) - 1)] + list(run)
