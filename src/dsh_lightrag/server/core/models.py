"""The two models that the core needs: as protocols, bounded together, and counted per document."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dsh_lightrag.server.backend import ModelFailedError, Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from dsh_lightrag.server.core.gate import Gate


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A whole answer of a chat model, and the tokens it took where the endpoint says so."""

    text: str
    tokens: int | None = None


class ChatModel(Protocol):
    """A chat model. Its failures are `ModelFailedError`, whatever their cause."""

    @property
    def name(self) -> str:
        """Return the model's name, as GET /health may show it."""
        ...

    async def chat(self, turns: Sequence[Turn], *, as_json: bool) -> ChatReply:
        """Return a whole answer."""
        ...

    def stream(self, turns: Sequence[Turn]) -> AsyncIterator[str]:
        """Give an answer as it is written; one that is cut short raises while it is read."""
        ...


class EmbeddingModel(Protocol):
    """An embedding model. Its failures are `ModelFailedError`, whatever their cause."""

    @property
    def name(self) -> str:
        """Return the model's name: a workspace remembers it and refuses another one."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """Return one row per text, as numpy's float32; `query` tells a question from a text."""
        ...


@dataclass(slots=True)
class Work:
    """One piece of work that calls models: a question, or a document that is processed.

    Attributes:
        urgent: whether its calls go before those of others.
        tokens: what its chat calls took so far.
        failure: the first failure of a model, since LightRAG does not hand every one on.
    """

    urgent: bool = False
    tokens: int = 0
    failure: ModelFailedError | None = None


# Set by whoever begins a piece of work; LightRAG's tasks inherit it down to the model call.
WORK: ContextVar[Work | None] = ContextVar("work", default=None)


@dataclass(frozen=True, slots=True)
class Models:
    """Both models behind their gates, in the shapes that LightRAG calls.

    Attributes:
        chat: the chat model.
        embedding: the embedding model.
        chat_gate: bounds the chat calls of all workspaces together.
        embedding_gate: bounds the embedding calls of all workspaces together.
        count: counts a text's tokens, for endpoints that do not tell.
    """

    chat: ChatModel
    embedding: EmbeddingModel
    chat_gate: Gate
    embedding_gate: Gate
    count: Callable[[str], int] = field(repr=False)

    def chat_function(self) -> Callable[..., Awaitable[str | AsyncIterator[str]]]:
        """Return LightRAG's `llm_model_func`; a plain function, which survives its deep copies."""

        async def llm_model_func(
            prompt: str,
            system_prompt: str | None = None,
            history_messages: Sequence[dict[str, str]] | None = None,
            **options: Any,
        ) -> str | AsyncIterator[str]:
            turns = [Turn("system", system_prompt)] if system_prompt else []
            turns += [Turn(turn["role"], turn["content"]) for turn in history_messages or ()]
            turns.append(Turn("user", prompt))
            if options.get("stream"):
                return self._streamed(turns)
            return await self._chat(turns, as_json=options.get("response_format") is not None)

        return llm_model_func

    async def _chat(self, turns: Sequence[Turn], *, as_json: bool) -> str:
        work = WORK.get() or Work()
        async with self.chat_gate.slot(urgent=work.urgent):
            try:
                reply = await self.chat.chat(turns, as_json=as_json)
            except ModelFailedError as error:
                work.failure = work.failure or error
                raise
        if reply.tokens is None:
            work.tokens += sum(self.count(turn.content) for turn in turns) + self.count(reply.text)
        else:
            work.tokens += reply.tokens
        return reply.text

    async def _streamed(self, turns: Sequence[Turn]) -> AsyncIterator[str]:
        async with self.chat_gate.slot(urgent=True):
            async for piece in self.chat.stream(turns):
                yield piece

    def embedding_function(self) -> Callable[..., Awaitable[Any]]:
        """Return what LightRAG's `EmbeddingFunc` wraps."""

        async def embed(texts: Sequence[str], *, context: str = "document", **_options: Any) -> Any:
            work = WORK.get() or Work()
            async with self.embedding_gate.slot(urgent=work.urgent):
                try:
                    return await self.embedding.embed(texts, query=context == "query")
                except ModelFailedError as error:
                    work.failure = work.failure or error
                    raise

        return embed
