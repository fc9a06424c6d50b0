"""Entities without a model: what is written with capitals, and key terms where nothing is.

A run of capitalised words is a candidate name in every script that has capitals. Whether it is a
name at all (and not just the first word of a sentence) shows only in the whole collection: words
that it mostly writes in lower case are no names. That test belongs to the graph, which knows the
collection; here every candidate is kept.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dsh_lightrag.engine import names, terms
from dsh_lightrag.engine.model import Extraction, Found
from dsh_lightrag.engine.scripts import capitals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Extraction changes with this number; a base remembers which one made its graph.
VERSION = 1

_ALONE, _AMONG_OTHERS = 0.3, 0.5  # what `is_name` allows to be in lower case
_SENTENCE_BREAK = re.compile(r"[.!?…:;\n\"“”«»(\[|•#*]")
_CONNECTORS = "of|the|de|la|le|del|della|di|da|von|van|der|den|al|bin|ibn|and|for|du|des|y|&"
_NO_NAME = names.STOP_WORDS | {""}
_BEFORE_YEARS = {"in", "since", "by", "from", "until", "after", "before", "during"}
_EDGES = " .,'’-"
_POSSESSIVE = re.compile(r"['’]s$")
_WORD = re.compile(r"[^\W\d_][\w'’\-]*")
# What stands between names of unspaced scripts: particles and the commonest function words.
_FUNCTION = re.compile("[的了是在和与及或不也都就而被把从到对为以这那有我你他她它们个年月日等很]")
_PARTICLE = re.compile("(?<=[\uac00-\ud7a3]{2})[은는이가을를의에와과로도]$")
_CLAUSE = re.compile(r"[^\w\s'’-]+|\n")
_QUOTED = re.compile(r"[《「『【〈]([^《》「」『』【】〈〉\n]{2,20})[》」』】〉]")
_UNSPACED_NAME = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf]{2,12}|[\u30a1-\u30fa\u30fc]{2,20}|[\uac00-\ud7a3]{2,12}"
)
_CASELESS_WORD = re.compile("[\u0590-\u06ff\u0750-\u077f\u08a0-\u08ff\u0900-\u0dff]{4,30}")


@cache
def _capitalised() -> re.Pattern[str]:
    """Return the pattern of a run of capitalised words, built once and only when needed."""
    capital = capitals()
    word = rf"(?:(?:[A-Z]\.){{1,3}}|[{capital}][\w'’\-]*(?:\.(?=\w))?[\w'’\-]*)"
    return re.compile(rf"{word}(?:\s+(?:(?:{_CONNECTORS})\s+){{0,2}}{word}|\s+\d{{1,4}}(?=\W))*")


def extract(text: str) -> Extraction:
    """Return every candidate name of a chunk with the number of times it stands there."""
    found: dict[str, Found] = {}
    for match in _capitalised().finditer(text):
        _add(found, match[0], certain=False)
    for term in _terms(text):
        _add(found, term, certain=True)
    return Extraction(tuple(found.values()))


def _add(found: dict[str, Found], written: str, *, certain: bool) -> None:
    """Count a candidate, and both sides of an "A and B", which may be one name or two."""
    parts = _trim(written.split())
    _count(found, parts, certain=certain)
    if "and" in parts:
        middle = parts.index("and")
        for side in (parts[:middle], parts[middle + 1 :]):
            if len(" ".join(side)) > 2:  # noqa: PLR2004 - initials name nobody
                _count(found, _trim(side), certain=certain)


def _count(found: dict[str, Found], parts: list[str], *, certain: bool) -> None:
    """Add one to a name unless it is a letter, a number or a sentence."""
    name = _POSSESSIVE.sub("", " ".join(parts).strip(_EDGES))
    kept = names.words(name)
    key = " ".join(kept)
    if len(key) < 2 or key.isdigit() or key in names.STOP_WORDS or not names.is_short(kept):  # noqa: PLR2004 - as it says
        return
    before = found.get(key)
    if before is None:
        found[key] = Found(name, certain=certain)
    else:
        found[key] = replace(before, count=before.count + 1, certain=before.certain or certain)


def _trim(parts: list[str]) -> list[str]:
    """Drop stop words at both ends, and a year behind the first of them."""
    start, end = 0, len(parts)
    while start < end and (word := names.key(parts[start])) in _NO_NAME:
        start += 1
        if word in _BEFORE_YEARS and start < end and parts[start].isdigit():
            start += 1  # "In 1898 Marie Curie"
    while end > start and names.key(parts[end - 1]) in _NO_NAME:
        end -= 1
    return parts[start:end]


def _terms(text: str) -> Iterator[str]:
    """Yield key terms of text that has no capitals to mark its names.

    Quoted titles, runs between function words in unspaced scripts, long words of scripts without
    case, and in a text written wholly in lower case the pairs and triples between stop words.
    """
    if text.isascii():
        if not any(map(str.isupper, text)):
            yield from _phrases(text)
        return
    for match in _QUOTED.finditer(text):
        yield match[1]
    for match in _UNSPACED_NAME.finditer(text):
        for part in _FUNCTION.split(match[0]):
            if 1 < len(part) <= names.MAX_CHARACTERS:
                yield _PARTICLE.sub("", part)
    for match in _CASELESS_WORD.finditer(text):
        yield match[0]


def _phrases(text: str) -> Iterator[str]:
    """Yield runs of two or three words that no stop word and no mark interrupts."""
    for part in _CLAUSE.split(text):
        run: list[str] = []
        for word in [*part.split(), ""]:
            if word and word not in terms.STOP_WORDS and word not in names.STOP_WORDS:
                run.append(word)
                continue
            if 2 <= len(run) <= 3:  # noqa: PLR2004 - as the docstring says
                yield " ".join(run)
            run = []


class Uses(NamedTuple):
    """How often a word is written, in lower case, and as a name within a sentence."""

    total: int = 0
    lower: int = 0
    inner: int = 0

    def plus(self, other: Uses, sign: int = 1) -> Uses:
        """Return both together, or with `sign` -1 what is left without the other."""
        total, lower, inner = other
        return Uses(self.total + sign * total, self.lower + sign * lower, self.inner + sign * inner)

    def mostly_lower(self, share: float) -> bool:
        """Tell whether more than this share is in lower case."""
        return self.lower > share * max(self.total, 1)

    @property
    def standing(self) -> tuple[bool, bool]:
        """Whether the word is a name alone, and whether it makes one of several words."""
        alone = self.inner > 0 and not self.mostly_lower(_ALONE)
        return alone, not self.mostly_lower(_AMONG_OTHERS)


UNSEEN = Uses()


def spelling_counts(text: str) -> dict[str, Uses]:
    """Return how each word of a text is written in it."""
    counts: dict[str, list[int]] = {}
    end = 0
    inside = False
    for match in _WORD.finditer(text):
        written = match[0]
        if _SENTENCE_BREAK.search(text, end, match.start()):
            inside = False
        lower = written[0].islower()
        plain = written.isascii() and written.isalpha()
        for word in (written.lower(),) if plain else names.words(written):
            count = counts.setdefault(word, [0, 0, 0])
            count[0] += 1
            count[1] += lower
            count[2] += inside and not lower
        end, inside = match.end(), True
    return {word: Uses(*count) for word, count in counts.items()}


def is_name(key: str, spelling: Mapping[str, Uses]) -> bool:
    """Tell by the whole collection's spelling whether a candidate is a name.

    One word must be capitalised seven times out of ten, and not only where sentences begin; of
    several words one must be capitalised half of the time.
    """
    found = key.split(" ")
    if len(found) == 1:
        return spelling.get(key, UNSEEN).standing[0]
    return any(spelling.get(word, UNSEEN).standing[1] for word in found)
