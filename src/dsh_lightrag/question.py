"""What LightRAG accepts as a question, checked before any request is made."""

from __future__ import annotations

import re

from dsh_lightrag.bounds import Bounds
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.wire import MAX_QUERY_CHARS, Mode

TOP_K = Bounds(default=20, low=1, high=200)
MIN_WEIGHT = 3
# The blocks whose characters LightRAG 1.5.7 counts as two: Chinese, Japanese and Korean.
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\ufe30-\ufe4f\uff00-\uffee\U00016fe0-\U00016fff\U0001aff0-\U0001b2ff\U00020000-\U0003fffd]"
)


def accepted_question(text: str, mode: Mode, argument: str) -> str:
    """Return the question without outer blanks.

    Raises:
        LightRagError: `invalid-argument` for a blank, too short or too long question.
    """
    question = text.strip()
    if not question:
        raise LightRagError(Code.INVALID_ARGUMENT, f"{argument} must not be blank.")
    if len(question) > MAX_QUERY_CHARS:
        raise LightRagError(
            Code.INVALID_ARGUMENT,
            f"{argument} has {len(question)} characters; LightRAG takes {MAX_QUERY_CHARS}.",
        )
    # Three characters always pass, so only the shortest questions are looked at.
    short = len(question) < MIN_WEIGHT
    if mode != "bypass" and short and len(question) + len(_WIDE.findall(question)) < MIN_WEIGHT:
        raise LightRagError(
            Code.INVALID_ARGUMENT,
            f"{argument} is too short: LightRAG needs 3 characters, of which each Chinese, "
            "Japanese or Korean one counts as 2.",
            hint="Ask a whole question.",
        )
    return question
