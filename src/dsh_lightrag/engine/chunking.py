"""From a text to chunks: slices of it that follow headings, paragraphs and sentences.

The text is first cut into small spans, none longer than half a chunk, that together are all of
it; then neighbouring spans are packed into chunks. Tokens are counted by a rule of thumb (eight
letters, eight spaces, one unspaced character or one mark are one token): no model's vocabulary
is needed, and the same text is cut alike everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.engine.model import Piece
from dsh_lightrag.engine.scripts import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Iterator

# Chunks change with this number; a base remembers which one cut it.
VERSION = 1

_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]{{1,8}}|[^\w\s]|\s{{8}}")
_LINE = re.compile(r"[^\n]*\n?")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*?)[ \t]*#*[ \t]*\n?")
_FENCE = re.compile(r" {0,3}(```|~~~)")
# A sentence ends at its mark, with what closes it and the space behind; CJK marks need no space.
_SENTENCE_END = re.compile(r"[.!?…؟۔।॥]+[\"'”’»)\]]*\s+|[。！？｡]+[」』”’）]*\s*|\n")
_BREAKS = frozenset(",;:，；：、/|-")  # a long sentence may be cut behind these, or at a space
_HEADING_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How long chunks are, in tokens as counted here.

    Attributes:
        tokens: no chunk has more.
        overlap: about so many tokens at the end of a chunk begin the next one too.
    """

    tokens: int = 240
    overlap: int = 40

    def __post_init__(self) -> None:
        """Refuse sizes that could not make progress."""
        if self.tokens < 8 or not 0 <= self.overlap <= self.tokens // 2:  # noqa: PLR2004 - shorter says nothing
            raise ValueError("a chunk has at least 8 tokens, and at most half of it overlaps")


DEFAULT_SIZES = ChunkSizes()


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of the text that is only cut if it must be; `breaks` is set where a section begins."""

    start: int
    end: int
    tokens: int
    heading: str
    breaks: bool = False


def count_tokens(text: str) -> int:
    """Return the number of tokens, by the rule of thumb above."""
    return sum(1 for _ in _TOKEN.finditer(text))


def split(text: str, sizes: ChunkSizes) -> list[Piece]:
    """Return the chunks of a text in order; what is not white space is in at least one."""
    spans = list(_spans(text, max(4, sizes.tokens // 2)))
    pieces: list[Piece] = []
    first = 0
    while first < len(spans):
        last = _fill(spans, first, sizes)
        piece = _piece(text, spans[first:last])
        if piece is not None:
            pieces.append(piece)
        first = _rewind(spans, first, last, sizes.overlap)
    return pieces


def _fill(spans: list[_Span], first: int, sizes: ChunkSizes) -> int:
    """Return the end of the chunk that begins at `first`."""
    tokens = spans[first].tokens
    last = first + 1
    while last < len(spans):
        # A section of its own, unless what came before it is too little to stand alone.
        if spans[last].breaks and tokens >= sizes.tokens // 4:
            break
        if tokens + spans[last].tokens > sizes.tokens:
            break
        tokens += spans[last].tokens
        last += 1
    return last


def _rewind(spans: list[_Span], first: int, last: int, overlap: int) -> int:
    """Return where the next chunk begins: some spans back, within the same section."""
    if last >= len(spans) or spans[last].breaks:
        return last
    tokens = 0
    start = last
    while start - 1 > first and tokens + spans[start - 1].tokens <= overlap:
        start -= 1
        tokens += spans[start].tokens
        if spans[start].breaks:
            break
    return start


def _piece(text: str, spans: list[_Span]) -> Piece | None:
    """Return the spans as one slice without the white space around it, or None if it is blank."""
    start, end = spans[0].start, spans[-1].end
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    end -= len(inner) - len(inner.rstrip())
    if start >= end:
        return None
    return Piece(start, end, sum(span.tokens for span in spans), spans[0].heading)


def _spans(text: str, limit: int) -> Iterator[_Span]:
    """Cut a text at headings, sentences and line ends; every character is in exactly one span."""
    headings: list[tuple[int, str]] = []
    fenced = ""
    path = ""
    for match in _LINE.finditer(text):
        line = match[0]
        if not line:
            continue
        fence = _FENCE.match(line)
        if fence:
            fenced = "" if fenced == fence[1] else fenced or fence[1]
        heading = None if fenced or fence else _HEADING.fullmatch(line)
        if heading:
            level = len(heading[1])
            headings = [above for above in headings if above[0] < level]
            headings.append((level, heading[2][:_HEADING_CHARACTERS]))
            path = " > ".join(name for _, name in headings)
        parts = _sentences(line, match.start(), limit)
        for number, (start, end, tokens) in enumerate(parts):
            yield _Span(start, end, tokens, path, breaks=bool(heading) and number == 0)


def _sentences(line: str, offset: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """Cut a line after each sentence, and a sentence that is too long wherever it can be."""
    start = 0
    for match in _SENTENCE_END.finditer(line):
        yield from _bounded(line[start : match.end()], offset + start, limit)
        start = match.end()
    if start < len(line):
        yield from _bounded(line[start:], offset + start, limit)


def _bounded(sentence: str, offset: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """Yield a sentence whole, or in parts of at most `limit` tokens cut at white space or marks."""
    start = used = breakable = since = 0
    for match in _TOKEN.finditer(sentence):
        begin = match.start()
        if used == limit:
            cut, kept = (breakable, since) if breakable > start else (begin, used)
            yield offset + start, offset + cut, kept
            start, used, since = cut, used - kept, 0
            breakable = start
        if used and (sentence[begin - 1] in _BREAKS or sentence[begin - 1].isspace()):
            breakable, since = begin, used
        used += 1
    yield offset + start, offset + len(sentence), used
