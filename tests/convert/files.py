"""Files for the tests, made here: honest ones, and those that try to hurt."""

import io
import zipfile
import zlib

import docx
import openpyxl
import pptx

FACT = "Marie Curie discovered polonium in 1898."


def word():
    document = docx.Document()
    document.add_heading("Polonium", level=1)
    document.add_paragraph(FACT)
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text = "element"
    table.rows[0].cells[1].text = "radium"
    return saved(document)


def slides():
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Polonium"
    slide.placeholders[1].text = FACT
    return saved(presentation)


def sheet(*rows):
    book = openpyxl.Workbook()
    for row in rows or [("element", "year"), ("polonium", 1898), ("radium", 1898)]:
        book.active.append(row)
    return saved(book)


def saved(document):
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def pdf(*pages, encrypt=None):
    """A PDF of one font, each page one line; written by hand, since no writer is needed."""
    pages = pages or (FACT,)
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    return assembled([text.encode("latin-1") for text in objects], encrypt)


def pdf_with_stream(compressed):
    """A PDF whose page is drawn by a compressed stream."""
    head = f"<< /Length {len(compressed)} /Filter /FlateDecode >>\nstream\n".encode()
    return assembled(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R >>",
            head + compressed + b"\nendstream",
        ]
    )


def assembled(objects, encrypt=None):
    out = bytearray(b"%PDF-1.4\n")
    places = []
    if encrypt:
        objects = [*objects, encrypt]
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    begin = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    extra = b"/Encrypt %d 0 R /ID [<%s> <%s>]" % (len(objects), b"00" * 16, b"00" * 16)
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (
        len(objects) + 1,
        extra if encrypt else b"",
    )
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % begin)


def encrypted_pdf():
    """A PDF whose user password is not the empty one: its check value fits no password."""
    return pdf(
        encrypt=b"<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <%s> /U <%s> >>"
        % (b"11" * 32, b"22" * 32)
    )


def repacked(package, change=None, add=None):
    """The package with parts changed (name to bytes) and others added (name to bytes)."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(package)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, (change or {}).get(name, old.read(name)))
        for name, content in (add or {}).items():
            new.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def part(package, name):
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        return opened.read(name)


def deflated(size, piece=b"0" * (1 << 20)):
    """`size` bytes of nothing much, compressed."""
    compressor = zlib.compressobj(9)
    parts = [compressor.compress(piece) for _ in range(size // len(piece))]
    return b"".join(parts) + compressor.flush()
