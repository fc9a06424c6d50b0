"""Names and ids as people and programs give them: one line that reads as it is."""

from __future__ import annotations

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.tables import MAX_NAME
from dsh_lightrag.text import clean_line


def plain(value: str) -> str:
    """Return a name or an id that reads as it is.

    Raises:
        ValueError: it holds control characters or line breaks, or blanks at its ends.
    """
    if clean_line(value) != value or value != value.strip():
        raise ValueError("must be one line without control characters or outer blanks")
    return value


def checked_name(value: str, argument: str) -> str:
    """Return a name of 1 to 200 characters.

    Raises:
        LightRagError: `invalid-argument`, naming the argument.
    """
    try:
        usable = 0 < len(plain(value)) <= MAX_NAME
    except ValueError:
        usable = False
    if not usable:
        raise LightRagError(
            Code.INVALID_ARGUMENT,
            f"{argument} must be 1 to {MAX_NAME} characters on one line, without outer blanks.",
        )
    return value
