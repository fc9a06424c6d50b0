"""Pydantic AI: a history processor that puts retrieved context before the last user message.

agent = Agent(model, capabilities=[ProcessHistory(augmented(middleware))])
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.prompt.document import PromptDocument

with needs_extra("pydantic-ai", __name__):
    from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dsh_lightrag.prompt.registry import Middleware

_MARK = "dsh-lightrag"


def augmented(
    middleware: Middleware,
) -> Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """Return the processor: a user's message is augmented once, when it is about to be sent.

    It stays in the user role, never among the instructions. Turns that only return tool results
    pass, as does a message that was augmented before, which its metadata tells.
    """

    async def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        last = messages[-1] if messages else None
        if not isinstance(last, ModelRequest) or _MARK in (last.metadata or {}):
            return messages
        index = _last_prompt(last)
        if index is None:
            return messages
        parts = list(last.parts)
        prompt = parts[index]
        assert isinstance(prompt, UserPromptPart)  # noqa: S101 - what _last_prompt looked for
        parts[index] = await _before(middleware, prompt)
        mark = {**(last.metadata or {}), _MARK: "augmented"}
        return [*messages[:-1], replace(last, parts=parts, metadata=mark)]

    return process


def _last_prompt(request: ModelRequest) -> int | None:
    found = [i for i, part in enumerate(request.parts) if isinstance(part, UserPromptPart)]
    return found[-1] if found else None


async def _before(middleware: Middleware, prompt: UserPromptPart) -> UserPromptPart:
    """Return the prompt with blocks before it; images and the like stay as and where they are."""
    content = prompt.content
    if isinstance(content, str):
        enhanced = await middleware.aenhance(PromptDocument(content))
        return replace(prompt, content=enhanced.render())
    task = "\n\n".join(item for item in content if isinstance(item, str))
    blocks = (await middleware.aenhance(PromptDocument(task))).blocks
    context: Sequence[str] = [f"{block}\n\n" for block in blocks]
    return replace(prompt, content=[*context, *content])
