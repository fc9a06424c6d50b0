"""HTML to text: headings, paragraphs, lists and table rows keep their places, scripts go.

A scanner of our own, since the standard library's takes time quadratic in a page that is made to
hurt. It follows the HTML standard where a page is broken: what is never closed runs to the end.
"""

from __future__ import annotations

import html
import re

from dsh_lightrag.convert.plain import decoded

# What is written where an element begins; every other block element begins a paragraph.
_OPENINGS: dict[str, str] = {
    **{f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)},
    "title": "\n\n# ",
    "li": "\n- ",
    "tr": "\n",
    "td": " | ",
    "th": " | ",
    "br": "\n",
    "dt": "\n",
    "dd": "\n",
    "option": "\n",
}
_CLOSINGS: dict[str, str] = dict.fromkeys(
    ("h1", "h2", "h3", "h4", "h5", "h6", "title", "table", "ul", "ol", "dl", "tr"), "\n\n"
) | {"tr": "\n"}
_BLOCK_NAMES = (
    "address article aside blockquote body caption details dialog div dl fieldset figcaption figure"
    " footer form header hr legend main nav ol p pre section select summary table ul"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
# Elements whose content is no text of the page.
_SILENT = frozenset(("script", "style", "iframe", "noembed", "noframes", "svg", "template"))
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)"
    # Attributes: a quote counts after `=` alone, as in the standard.
    r"(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+>"
)
_SPACES = re.compile(r"[ \t\n\f]+")
_EMPTY_LINES = re.compile(r"\n{3,}")
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([a-zA-Z0-9_-]{1,40})", re.IGNORECASE
)
_HEAD_BYTES = 4096
# A number no character has; Python refuses to read one of some thousand digits.
_ENDLESS_NUMBER = re.compile(r"&#[0-9]{9,}+;?")


def page_text(data: bytes) -> str:
    """Return the text of an HTML page, its structure written as Markdown has it.

    Raises:
        ConversionError: the bytes are no text.
    """
    declared = _CHARSET.search(data, 0, _HEAD_BYTES)
    source = decoded(data, declared[1].decode("ascii") if declared else None)
    page = _Page()
    _read(source, page)
    return page.text()


class _Page:
    """The text so far."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._line_is_empty = True
        self._preformatted = 0

    def say(self, source: str) -> None:
        """Add text, its entities resolved; white space counts only where it is preformatted."""
        text = html.unescape(_ENDLESS_NUMBER.sub("\ufffd", source))
        if not self._preformatted:
            text = _SPACES.sub(" ", text)
            if self._line_is_empty:
                text = text.lstrip(" ")
        if text:
            self._pieces.append(text)
            self._line_is_empty = text[-1] in " \n"

    def mark(self, mark: str) -> None:
        """Add what an element means for the layout."""
        if mark:
            self._pieces.append(mark)
            self._line_is_empty = True

    def enter(self, name: str) -> None:
        """Begin an element."""
        self._preformatted += name == "pre"
        self.mark(_OPENINGS.get(name, "\n\n" if name in _BLOCKS else ""))

    def leave(self, name: str) -> None:
        """End an element."""
        self._preformatted = max(0, self._preformatted - (name == "pre"))
        self.mark(_CLOSINGS.get(name, "\n\n" if name in _BLOCKS else ""))

    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._pieces).split("\n"))
        return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


def _read(source: str, page: _Page) -> None:
    """Walk through a page once; every search begins where the last one ended."""
    at = 0
    while at < len(source):
        begin = source.find("<", at)
        if begin < 0:
            page.say(source[at:])
            return
        page.say(source[at:begin])
        at = _after_markup(source, begin, page)


def _after_markup(source: str, begin: int, page: _Page) -> int:
    """Take in what stands at a `<`; return where the text goes on."""
    if source.startswith("<!--", begin):
        return _after(source, "-->", begin + 2)
    following = source[begin + 1 : begin + 3]
    if following[:1] in ("!", "?") or (following[:1] == "/" and not following[1:].isalpha()):
        return _after(source, ">", begin)
    if not following.lstrip("/")[:1].isalpha():
        page.say("<")
        return begin + 1
    tag = _TAG.match(source, begin)
    if tag is None:
        return len(source)
    name = tag["name"].lower()
    if tag["end"]:
        page.leave(name)
    elif name in _SILENT:
        return _after_element(source, name, tag.end())
    else:
        page.enter(name)
    return tag.end()


def _after(source: str, mark: str, begin: int) -> int:
    found = source.find(mark, begin)
    return len(source) if found < 0 else found + len(mark)


def _after_element(source: str, name: str, begin: int) -> int:
    closing = re.compile(f"</{name}", re.IGNORECASE).search(source, begin)
    return _after(source, ">", closing.end()) if closing else len(source)
