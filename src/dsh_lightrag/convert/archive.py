"""What a package of files must be like before a reader opens it; runs inside the child."""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NoReturn
from xml.parsers import expat  # declarations are refused, before any of them is followed

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PARTS = 20_000
# Deflate can do a thousand to one; documents hardly ever do better than fifty to one.
MOST_RATIO = 200
# Below this a part may be as repetitive as it likes: an empty sheet is.
RATIO_MATTERS_BYTES = 10 << 20
_ENCRYPTED_FLAG = 0x1
_PIECE = 1 << 16
_XML = (".xml", ".rels")
# Readers walk down recursively; documents stay far above this.
DEEPEST = 256
# Of one tag, comment or instruction. Parsers begin it anew with every piece that comes, which takes
# time quadratic in its length; pictures in attributes of old drawings stay below this.
LONGEST_TOKEN = 4 << 20


class RefusedError(Exception):
    """A package that is not opened; `key` is one of `faults.FAULTS`."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def check_package(data: bytes, most_bytes: int) -> None:
    """Read a zip through without keeping anything of it.

    Raises:
        RefusedError: it is encrypted, climbs, unpacks to too much, or its XML
            declares entities, is nested too deeply or holds an endless tag.
        zipfile.BadZipFile: it is damaged; `zlib.error`, `EOFError` and `ExpatError` mean the same.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        parts = package.infolist()
        if len(parts) > MOST_PARTS:
            _refuse("crowded")
        left = most_bytes
        for part in parts:
            _check_claims(part)
            left -= _check_content(package, part, left)


def _check_claims(part: zipfile.ZipInfo) -> None:
    name = PurePosixPath(part.filename.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or ":" in part.filename:
        _refuse("climbs")
    if part.flag_bits & _ENCRYPTED_FLAG:
        _refuse("encrypted")


def _check_content(package: zipfile.ZipFile, part: zipfile.ZipInfo, left: int) -> int:
    """Unpack a part piece by piece; what it claims to be long is not believed."""
    size = 0
    look = _xml_check() if part.filename.lower().endswith(_XML) else None
    with package.open(part) as content:
        while piece := content.read(_PIECE):
            size += len(piece)
            if size > left or (
                size > RATIO_MATTERS_BYTES and size > part.compress_size * MOST_RATIO
            ):
                _refuse("bomb")
            if look:
                look(piece)
    return size


def _xml_check() -> Callable[[bytes], None]:
    """Return what reads XML along, and refuses what would hurt its readers as it comes."""
    parser = expat.ParserCreate()
    depth = seen = 0

    def enter(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            _refuse("nested")

    def leave(_: str) -> None:
        nonlocal depth
        depth -= 1

    def declare(*_: object) -> None:
        _refuse("entities")

    parser.StartElementHandler = enter
    parser.EndElementHandler = leave
    parser.StartDoctypeDeclHandler = declare

    def look(piece: bytes) -> None:
        nonlocal seen
        seen += len(piece)
        parser.Parse(piece)
        if seen - parser.CurrentByteIndex > LONGEST_TOKEN:  # it counts up to what is unfinished
            _refuse("endless-tag")

    return look


def _refuse(key: str) -> NoReturn:
    raise RefusedError(key)
