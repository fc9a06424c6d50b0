"""PDF, Word, PowerPoint and Excel: honest files, broken ones, and those that try to hurt."""

import io
import os
import signal
import subprocess
import sys
import zipfile

import pytest

from dsh_lightrag.convert import ConversionError, Limits, text_of
from dsh_lightrag.convert.office import _READERS, close_readers

from . import files

# Each file that is really read starts a process, which imports its reader for seconds.
pytestmark = pytest.mark.timeout(240)


def refusal(name, data, **limits):
    with pytest.raises(ConversionError) as caught:
        text_of(name, data, Limits(**limits))
    assert files.FACT not in str(caught.value)
    return caught.value.problem


@pytest.mark.parametrize(
    ("name", "make"),
    [("a.pdf", files.pdf), ("a.docx", files.word), ("a.pptx", files.slides)],
)
def test_a_document_gives_its_text(name, make):
    assert files.FACT in text_of(name, make())


def test_a_word_document_keeps_headings_and_tables():
    text = text_of("a.docx", files.word())
    assert text.startswith("# Polonium")
    assert "| element | radium |" in text


def test_a_workbook_gives_its_rows():
    text = text_of("a.xlsx", files.sheet())
    assert "| polonium | 1898 |" in text


def test_junk_before_a_pdf_does_not_matter():
    assert files.FACT in text_of("a.pdf", b"junk\n" + files.pdf())


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.pptx", "a.xlsx"])
def test_what_is_not_of_the_format_is_refused_before_a_process_starts(name, monkeypatch):
    monkeypatch.setattr("dsh_lightrag.convert.office._take_reader", None)
    assert "damaged" in refusal(name, b"plain text")
    assert "encrypted" in refusal(name, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 512)


def test_encrypted_documents_are_told_as_such():
    assert refusal("a.pdf", files.encrypted_pdf()) == "The file is encrypted."
    package = bytearray(files.word())
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        first = opened.infolist()[0]
    central = package.index(b"PK\x01\x02")
    package[central + 8] |= 1  # the flag of an encrypted part
    package[first.header_offset + 6] |= 1
    assert refusal("a.docx", bytes(package)) == "The file is encrypted."


def test_a_pdf_without_text_says_so():
    assert "holds no text" in refusal("a.pdf", files.pdf(" "))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", files.pdf()[:200]),
        ("a.docx", files.word()[:-100]),
        ("a.xlsx", files.word()),
        ("a.pptx", files.repacked(files.word(), {"[Content_Types].xml": b"<no"})),
    ],
    ids=["cut pdf", "cut docx", "docx as xlsx", "broken xml"],
)
def test_damaged_and_misnamed_files_are_refused(name, data):
    assert "damaged" in refusal(name, data)


@pytest.mark.parametrize("part", ["../../escaped.txt", "/etc/escaped", "a\\..\\..\\b", "C:/x"])
def test_a_package_whose_paths_climb_is_refused(part):
    assert "leave it" in refusal("a.docx", files.repacked(files.word(), add={part: b"x"}))


def test_a_zip_bomb_is_refused_by_what_it_unpacks_to():
    bomb = files.repacked(files.word(), add={"word/media/image1.png": b"\0" * (30 << 20)})
    assert len(bomb) < 100_000
    assert "unpacks to far more" in refusal("a.docx", bomb)
    honest = files.repacked(files.word(), add={"word/media/a.png": os.urandom(1 << 20)})
    assert "unpacks" in refusal("a.docx", honest, unpacked_bytes=1 << 20)


def test_a_part_that_lies_about_its_size_is_not_believed():
    bomb = bytearray(files.repacked(files.word(), add={"word/media/a.png": b"\0" * (30 << 20)}))
    last = bomb.rindex(b"PK\x01\x02")
    bomb[last + 24 : last + 28] = (10).to_bytes(4, "little")
    assert refusal("a.docx", bytes(bomb))


def test_a_package_of_very_many_parts_is_refused():
    parts = {f"word/{number}.bin": b"" for number in range(20_001)}
    assert "too many parts" in refusal("a.docx", files.repacked(files.word(), add=parts))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused_whatever_their_encoding(encoding):
    body = files.part(files.word(), "word/document.xml").decode().partition("?>")[2]
    evil = f'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>{body}'.encode(encoding)
    package = files.repacked(files.word(), {"word/document.xml": evil})
    assert "XML entities" in refusal("a.docx", package)


def test_deep_nesting_is_refused():
    body = files.part(files.word(), "word/document.xml")
    deep = body.replace(b"<w:body>", b"<w:body>" + b"<w:sdt>" * 100_000)
    package = files.repacked(files.word(), {"word/document.xml": deep})
    assert "nested too deeply" in refusal("a.docx", package)


def test_memory_is_bounded():
    sheet = files.sheet()
    rows = files.part(sheet, "xl/worksheets/sheet1.xml").replace(
        b"</sheetData>", b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    )
    package = files.repacked(sheet, {"xl/worksheets/sheet1.xml": rows})
    assert "memory" in refusal("a.xlsx", package, memory_bytes=1 << 30)


def test_time_is_bounded():
    bomb = files.pdf_with_stream(files.deflated(1 << 28))
    assert "too long" in refusal("a.pdf", bomb, seconds=2)


def test_the_text_is_bounded():
    assert "too much text" in refusal("a.pdf", files.pdf(), text_bytes=10)


def test_a_linked_picture_is_never_looked_for():
    document = files.word()
    link = (
        b'<Relationship Id="rId99" TargetMode="External" Type="http://schemas.openxmlformats.org/'
        b'officeDocument/2006/relationships/image" Target="file:///etc/hostname"/></Relationships>'
    )
    name = "word/_rels/document.xml.rels"
    rels = files.part(document, name).replace(b"</Relationships>", link)
    picture = (
        b'<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/'
        b'2006/wordprocessingDrawing"><a:graphic xmlns:a="http://schemas.openxmlformats.org/'
        b'drawingml/2006/main"><a:graphicData><pic:pic xmlns:pic="http://schemas.openxmlformats.'
        b'org/drawingml/2006/picture"><pic:blipFill><a:blip r:link="rId99" xmlns:r="http://schemas'
        b'.openxmlformats.org/officeDocument/2006/relationships"/></pic:blipFill></pic:pic>'
        b"</a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p></w:body>"
    )
    body = files.part(document, "word/document.xml").replace(b"</w:body>", picture)
    package = files.repacked(document, {name: rels, "word/document.xml": body})
    text = text_of("a.docx", package)
    assert files.FACT in text
    assert "base64" not in text


GUARDED = """
import sys
from dsh_lightrag.convert import child
sys.addaudithook(child._guard())
try:
    {action}
except PermissionError as error:
    print("refused", error)
"""


@pytest.mark.parametrize(
    "action",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "open('/etc/hostname')",
        "open('written', 'w')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.remove('/nowhere')",
    ],
)
def test_a_reader_reaches_neither_network_nor_files_nor_programs(action, tmp_path):
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", GUARDED.format(action=action)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)},  # noqa: PTH100 - as strings
    )
    assert done.stdout.startswith("refused"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_crashes_is_told_and_harms_nobody(monkeypatch):
    close_readers()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "broke" in refusal("a.pdf", files.pdf())


def test_without_the_extra_the_reason_names_it(monkeypatch):
    monkeypatch.setattr("dsh_lightrag.convert.office.find_spec", lambda _: None)
    with pytest.raises(ConversionError) as caught:
        text_of("a.pdf", files.pdf())
    assert "dsh-lightrag[files]" in caught.value.mend


def test_a_process_that_has_ended_is_replaced_and_none_is_left_over():
    assert files.FACT in text_of("a.pdf", files.pdf())
    (kept,) = _READERS
    os.killpg(kept._process.pid, signal.SIGKILL)  # noqa: SLF001 - as the system would
    assert files.FACT in text_of("a.pdf", files.pdf())
    close_readers()
    assert _READERS == []


@pytest.mark.parametrize(
    ("begin", "end"),
    [(b'<Types a="', b'"/>'), (b"<Types><!--", b"--></Types>")],
    ids=["tag", "comment"],
)
def test_xml_whose_tag_does_not_end_is_refused_before_it_takes_long(begin, end):
    """Its readers begin it anew with each piece: ten times as long takes a hundred times."""
    types = begin + b"0" * (35 << 20) + end
    noise = {"word/media/a.png": os.urandom(1 << 18)}
    package = files.repacked(files.word(), {"[Content_Types].xml": types}, add=noise)
    assert "does not end" in refusal("a.docx", package, seconds=20)


def test_a_long_attribute_of_an_old_drawing_is_read():
    body = files.part(files.word(), "word/document.xml")
    long = body.replace(b"<w:body>", b'<w:body><w:p w:rsidR="' + b"A" * (1 << 20) + b'"/>', 1)
    package = files.repacked(files.word(), {"word/document.xml": long})
    assert files.FACT in text_of("a.docx", package)
