"""Bytes that are text: byte order marks, UTF-8, and Windows-1252 where it is sure enough."""

from __future__ import annotations

import codecs
import re

from dsh_lightrag.convert.faults import ConversionError

# The longer marks first: that of UTF-32 begins like that of UTF-16.
_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Formats that could pass for text, or whose name is simply wrong.
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a zip package, as Word, PowerPoint and Excel write it"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old or encrypted Office file"),
    (b"{\\rtf", "rich text"),
)
# What text never holds: C0 control characters but tab, line breaks, form feed and escape.
_CONTROLS = bytes(set(range(32)) - {9, 10, 12, 13, 27})
_MOST_CONTROLS = 0.01
# Western letters stand between unaccented ones; text in another script is one run of high bytes.
_HIGH_RUN = re.compile(rb"[\x80-\xff]{4}")
# Encodings that texts come in. Python knows odder ones: some make half characters, and punycode
# takes time by the square of the length.
_OF_TEXTS = re.compile(
    r"ascii|utf-(8|8-sig|16|16-[lb]e|32|32-[lb]e)|iso8859-[0-9]+|cp[0-9]+|koi8-[rtu]|mac-[a-z]+"
    r"|gb2312|gbk|gb18030|big5|big5hkscs|euc_[a-z0-9_]+|shift_jis[a-z0-9_]*|iso2022_[a-z0-9_]+"
    r"|johab|tis-620"
)
_NOT_TEXT = "Convert it to UTF-8 text, or give the file the suffix of its format."


def decoded(data: bytes, declared: str | None = None) -> str:
    r"""Return the text of bytes with `\n` line breaks.

    Args:
        data: the whole file.
        declared: an encoding that the file names itself; it is tried before guessing.

    Raises:
        ConversionError: it is binary, or its encoding is not one that can be told for sure.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _lines(_strictly(data[len(mark) :], encoding))
    _refuse_binary(data)
    for encoding in filter(None, (known_encoding(declared or ""), "utf-8")):
        try:
            return _lines(data.decode(encoding))
        except UnicodeError:
            continue
    if _HIGH_RUN.search(data):
        raise ConversionError("The text is not UTF-8.", "Convert it to UTF-8.")
    return _lines(_strictly(data, "windows-1252"))


def known_encoding(name: str) -> str | None:
    """Return an encoding that was declared, if it is one that texts come in."""
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        return None
    return found if _OF_TEXTS.fullmatch(found) else None


def _refuse_binary(data: bytes) -> None:
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            raise ConversionError(f"The file is {kind}, but is not named so.", _NOT_TEXT)
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if b"\0" in data or controls > len(data) * _MOST_CONTROLS:
        raise ConversionError("The file is binary.", _NOT_TEXT)


def _strictly(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ConversionError(
            f"The text is not valid {encoding.upper()} (byte {error.start}).",
            "Convert it to UTF-8.",
        ) from None
    if "\0" in text:
        raise ConversionError("The file is binary.", _NOT_TEXT)
    return text


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
