"""Packages are judged before a reader opens them: each danger by its own word, damage as damage."""

from __future__ import annotations

import io
import zipfile
import zlib
from xml.parsers.expat import ExpatError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.convert.archive import (
    DEEPEST,
    LONGEST_TOKEN,
    MOST_PARTS,
    RefusedError,
    check_package,
)

from . import files

MOST = 32 << 20
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ExpatError,
    NotImplementedError,  # a way of packing that is not known
    RuntimeError,  # one that needs a password
    ValueError,
    OverflowError,
)

ENDLESS = b'<a b="' + bytes(range(48, 58)) * (LONGEST_TOKEN // 9)


def packed(*parts):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts:
            package.writestr(name, content)
    return data.getvalue()


def nested(depth):
    return b"<a>" * depth + b"</a>" * depth


@pytest.mark.parametrize(
    ("key", "package"),
    [
        ("climbs", packed(("../a.txt", b""))),
        ("climbs", packed(("/etc/passwd", b""))),
        ("climbs", packed(("a\\..\\..\\b.txt", b""))),
        ("climbs", packed(("C:/a.txt", b""))),
        ("crowded", packed(*((f"{number}.txt", b"") for number in range(MOST_PARTS + 1)))),
        ("bomb", packed(("a.png", bytes(12 << 20)))),
        ("bomb", packed(("a.bin", bytes(9 << 20)), ("b.bin", bytes(9 << 20)))),
        ("entities", packed(("a.xml", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'))),
        ("nested", packed(("a.xml", nested(DEEPEST + 1)))),
        (
            "endless-tag",
            packed(("a.rels", b'<a b="' + bytes(range(48, 58)) * (LONGEST_TOKEN // 9))),
        ),
    ],
)
def test_each_danger_is_refused_by_its_own_word(key, package):
    with pytest.raises(RefusedError) as refused:
        check_package(package, 16 << 20)
    assert refused.value.key == key


def test_what_is_just_within_the_bounds_is_taken():
    check_package(packed(("a.xml", nested(DEEPEST)), ("deep/er/b.png", bytes(9 << 20))), MOST)
    check_package(files.word(), MOST)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=20))
def test_damage_is_refused_or_read_through_and_nothing_else(changes):
    package = bytearray(files.word())
    for place, byte in changes:
        package[int(place * (len(package) - 1))] = byte
    try:
        check_package(bytes(package), MOST)
    except (RefusedError, *DAMAGE):
        return
