"""Which reader a file gets: by the suffix of its name."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dsh_lightrag.convert.faults import ConversionError, fault
from dsh_lightrag.convert.limits import DEFAULT_LIMITS
from dsh_lightrag.convert.office import OFFICE, office_text
from dsh_lightrag.convert.page import page_text
from dsh_lightrag.convert.plain import decoded
from dsh_lightrag.text import nearest

if TYPE_CHECKING:
    from dsh_lightrag.convert.limits import Limits

_PLAIN_NAMES = (
    ".bat .bib .c .cfg .conf .cpp .cs .css .csv .go .h .hpp .ini .java .js .json .jsonl .jsx .kt"
    " .less .log .lua .markdown .md .mdx .org .php .pl .properties .py .r .rb .rs .rst .scala .scss"
    " .sh .sql .swift .tex .text .toml .ts .tsv .tsx .txt .xml .yaml .yml"
)
PLAIN = frozenset(_PLAIN_NAMES.split())
PAGES = frozenset((".htm", ".html", ".xhtml"))
SUPPORTED: tuple[str, ...] = tuple(sorted(PLAIN | PAGES | OFFICE))
_INSTEAD = "Save it as text, Markdown, HTML, PDF or in a current Office format."


def is_supported(name: str) -> bool:
    """Tell whether files of this name are read, by its suffix alone."""
    return _suffix(name) in SUPPORTED


def text_of(name: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the text of a file; blocks, for a binary format as long as `limits` allows.

    Args:
        name: the file's name, whose suffix says what it is.
        data: the whole file.
        limits: how much it may take.

    Raises:
        ConversionError: with the reason; the file did nothing and is quoted nowhere.
    """
    suffix = _suffix(name)
    if suffix not in SUPPORTED:
        raise _unsupported(suffix)
    if not data.strip():
        raise ConversionError("The file is empty.", "Leave it out.")
    if len(data) > limits.file_bytes:
        raise ConversionError(
            f"The file has {len(data)} bytes; {limits.file_bytes} is the most that is read.",
            "Split it.",
        )
    text = _read(suffix, data, limits)
    if not text.strip():
        raise ConversionError(
            "The file holds no text.",
            "If its pages are pictures, have their text recognised (OCR) first.",
        )
    if len(text) > limits.text_bytes or len(text.encode()) > limits.text_bytes:
        raise fault("too-much-text")
    return text


def _read(suffix: str, data: bytes, limits: Limits) -> str:
    if suffix in OFFICE:
        return office_text(suffix, data, limits)
    return page_text(data) if suffix in PAGES else decoded(data)


def _suffix(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).suffix.lower()


def _unsupported(suffix: str) -> ConversionError:
    if not suffix:
        return ConversionError(
            "The file's name has no suffix to tell its format.", "Add one: .txt."
        )
    near = nearest(suffix, SUPPORTED)
    return ConversionError(
        "Files of this suffix are not read.", f"Is it {near}? {_INSTEAD}" if near else _INSTEAD
    )
