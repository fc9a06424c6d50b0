"""Text, HTML and whatever pretends to be text."""

import codecs
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.convert import SUPPORTED, ConversionError, Limits, is_supported, text_of

TEXTLIKE = [suffix for suffix in SUPPORTED if suffix not in (".pdf", ".docx", ".pptx", ".xlsx")]
SECRET = "the-very-content-77"


def refusal(name, data, **limits):
    with pytest.raises(ConversionError) as caught:
        text_of(name, data, Limits(**limits))
    assert caught.value.problem
    assert caught.value.mend
    assert SECRET not in str(caught.value)
    return caught.value.problem


@pytest.mark.parametrize("suffix", [s for s in TEXTLIKE if s not in (".htm", ".html", ".xhtml")])
def test_every_text_suffix_gives_the_text_as_it_is(suffix):
    text = 'Zürich, {"a": [1, 2]}, a;b\n\tend'
    assert text_of(f"notes{suffix.upper()}", text.encode()) == text


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_decides_and_is_no_part_of_the_text(mark, encoding):
    text = "Łódź 北京 🙂"
    assert text_of("a.txt", mark + text.encode(encoding)) == text


def test_line_breaks_of_other_systems_become_newlines():
    assert text_of("a.txt", b"one\r\ntwo\rthree") == "one\ntwo\nthree"


def test_western_text_without_utf8_is_read_and_other_scripts_are_not_guessed():
    assert text_of("a.txt", "Größe: 3 € für Zoë".encode("cp1252")) == "Größe: 3 € für Zoë"
    for encoding, text in (("koi8-r", "Москва"), ("gbk", "北京大学"), ("shift-jis", "東京都")):
        assert refusal("a.txt", text.encode(encoding)) == "The text is not UTF-8."


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"\0\1\2" + SECRET.encode(), "binary"),
        (SECRET.encode() + b"\1\2\3" * 20, "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        (b"%PDF-1.7 " + SECRET.encode(), "a PDF"),
        (b"PK\x03\x04" + SECRET.encode(), "zip"),
        (b"{\\rtf1 " + SECRET.encode(), "rich text"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8\x41\x00", "UTF-16"),
        (codecs.BOM_UTF16_BE + b"\x00\x00", "binary"),
    ],
)
def test_what_is_no_text_is_refused_with_its_reason(data, problem):
    assert problem in refusal("a.txt", data)


def test_size_and_suffix_are_held_to():
    assert "11 bytes" in refusal("a.txt", b"x" * 11, file_bytes=10)
    assert "too much text" in refusal("a.txt", "é".encode() * 6, text_bytes=10)
    assert "suffix" in refusal("a", b"text")
    assert "not read" in refusal("a.exe", b"text")
    with pytest.raises(ConversionError, match=r"Is it \.docx"):
        text_of("a.doc", b"x")
    assert not is_supported("a.txt/..")
    assert is_supported("C:\\notes\\A.TXT")


def test_a_page_keeps_its_structure_and_loses_its_scripts():
    page = b"""<!DOCTYPE html><html><head><title>Polonium</title><style>p {}</style>
    <script>alert("<p>no</p>")</script></head><body><h2>Find</h2><!-- <p>no</p> -->
    <p>Found  by
    <b>Marie</b>&nbsp;Curie &amp; Pierre &#x1F642; 3 < 4</p><ul><li>one<li>two</ul>
    <table><tr><td>a<td>b</tr></table><pre>x
  y</pre><a href="javascript:x()">link</a><svg><text>no</text></svg></body>"""
    assert text_of("a.html", page) == (
        "# Polonium\n\n## Find\n\nFound by Marie\xa0Curie & Pierre 🙂 3 < 4\n\n- one\n- two\n\n"
        " | a | b\n\nx\n  y\n\nlink"
    )


def test_a_page_is_read_in_the_encoding_that_it_declares():
    page = '<meta charset="windows-1251"><p>Москва</p>'.encode("cp1251")
    assert text_of("a.html", page) == "Москва"
    assert refusal("a.html", page.replace(b"windows-1251", b"base64"))


@pytest.mark.parametrize("charset", ["punycode", "unicode_escape", "idna", "rot13", "undefined"])
def test_a_page_that_declares_what_no_page_is_in_is_read_all_the_same(charset):
    page = f"<meta charset={charset}><p>text \\ud800-".encode() + b"9a" * 200_000
    begin = time.process_time()
    assert text_of("a.html", page).startswith("text \\ud800-9a")
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "piece", ["<!--", "<a b='", '<a b="', "<", "</", "<script>", "&#" + "9" * 5000, "<p a=" + " "]
)
def test_a_page_made_to_hurt_is_read_in_linear_time(piece):
    page = b"<p>text</p>" + piece.encode() * (1_000_000 // len(piece))
    begin = time.process_time()
    assert text_of("a.html", page).startswith("text")
    assert time.process_time() - begin < 10


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode), st.sampled_from(TEXTLIKE))
def test_any_bytes_become_text_or_a_typed_refusal(data, suffix):
    with suppress(ConversionError):
        text = text_of(f"a{suffix}", data)
        assert text.strip()
        assert "\r" not in text
        assert text.encode()


@given(st.text(alphabet="<>/!-abpre='\" &;#x9\n", max_size=200))
def test_any_markup_becomes_text_or_a_typed_refusal(markup):
    with suppress(ConversionError):
        assert text_of("a.html", markup.encode()).strip()
