"""A prompt as a value: the task instruction, and labelled blocks of context in front of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """Context under a header line; `str()` is exactly what stands in the prompt."""

    label: str
    text: str

    def __str__(self) -> str:
        return f"[{self.label}]\n{self.text}"


@dataclass(frozen=True, slots=True)
class PromptDocument:
    """What a driver is to be given.

    Attributes:
        task: the instruction, kept byte for byte by everyone.
        blocks: what stands before it, in reading order.
    """

    task: str
    blocks: tuple[ContextBlock, ...] = ()

    def with_block(self, block: ContextBlock) -> Self:
        """Return the same document with one block more, the nearest to the task."""
        return replace(self, blocks=(*self.blocks, block))

    def render(self) -> str:
        """Return the final prompt: the blocks, each followed by a blank line, then the task.

        There is no header before the task: drivers write their own.
        """
        return "\n\n".join((*map(str, self.blocks), self.task))
