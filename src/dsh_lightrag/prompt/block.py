"""Retrieved text made into a block: cut by characters, head and tail kept, fenced on request."""

from __future__ import annotations

from dsh_lightrag.prompt.document import ContextBlock
from dsh_lightrag.text import fence_opening, fence_tag

_GAP = "\n[… {} characters left out …]\n"


def make_block(label: str, context: str, max_chars: int, *, fence: bool) -> ContextBlock:
    """Return the block; its text, the fence included, is at most `max_chars` characters."""
    if not fence:
        return ContextBlock(label, cut_middle(context, max_chars))
    tag = fence_tag()
    opening, closing = f"{fence_opening(tag)}\n", f"\n</{tag}>"
    data = cut_middle(context, max_chars - len(opening) - len(closing))
    return ContextBlock(label, f"{opening}{data}{closing}")


def cut_middle(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters: head and tail alike, the gap between them marked."""
    if len(text) <= max_chars:
        return text
    # The number of dropped characters is at most as long, in digits, as that of all of them.
    kept = max_chars - len(_GAP.format(len(text)))
    head = (kept + 1) // 2
    tail = kept - head
    return f"{text[:head]}{_GAP.format(len(text) - kept)}{text[len(text) - tail :]}"
