"""What a file or a source may be called, and what of a name counts."""

from __future__ import annotations

import re

from dsh_lightrag.text import clean_line

# Control characters, halves of characters, and code points that are no characters.
UNSAFE = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# `report.[native].pdf` tells LightRAG's parser what to do, and is the file `report.pdf`.
_PARSER_HINT = re.compile(r"\.\[[^\[\]/]*\](?=\.[^./]+$)")


def filed_as(name: str) -> str:
    """Return what LightRAG files a name without folders under: cleaned, without a parser's hint."""
    return _PARSER_HINT.sub("", clean_line(name).strip())
