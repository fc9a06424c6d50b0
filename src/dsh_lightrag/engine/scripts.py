"""Writing systems, as far as finding words depends on them.

Three facts are needed: which characters are written without spaces between words (then single
characters or pairs of them stand for words), which accents may be dropped, and which letters are
capitals. All three come from Unicode, never from a list of languages.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Han, kana, Bopomofo, Hangul, Yi; Thai, Lao, Myanmar, Khmer. Hangul has spaces, but its particles
# stick to the word, so that pairs find what whole words miss.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3031-\u3035\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and points: no letters to `\\w`, yet inside words (decomposed accents, Hebrew, Arabic,
# Indic). The two dandas, which end sentences, are left out.
INSIDE = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)
UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")

# Marks of Latin, Greek and Cyrillic. The vowel signs of Indic and Semitic scripts are other
# code points and stay, for without them the words would be others.
_ACCENT = re.compile("[\u0300-\u036f]")


def fold(text: str) -> str:
    """Return the text without case and accents, compatibility forms made plain (ﬁ, Ａ, ①)."""
    if text.isascii():
        return text.lower()
    plain = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", plain).casefold()


@cache
def capitals() -> str:
    """Return a character class of every capital letter of every script that has them."""
    ranges: list[list[int]] = []
    for code in range(0x1F000):  # no script above these planes has capitals
        if unicodedata.category(chr(code)) not in {"Lu", "Lt"}:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(chr(low) if low == high else f"{chr(low)}-{chr(high)}" for low, high in ranges)
