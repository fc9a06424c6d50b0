"""The two models as LightRAG calls them: bounded over all workspaces, and counted per document.

Each LightRAG object has queues of its own, so ten workspaces would call a model forty times at
once, with questions behind documents. They are taken out (`inside.py`): all workspaces share the
threads here, some for what a person waits for and some for what runs in the background.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dsh_lightrag.engine import ModelFaultError
from dsh_lightrag.server.backend import ModelFailedError
from dsh_lightrag.server.models import ChatEndpoint, EmbeddingEndpoint

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from dsh_lightrag.server.embedded.embedding import LocalEmbedder
    from dsh_lightrag.server.endpoint import Endpoint

T = TypeVar("T")
ChatFunction = Callable[..., Awaitable["str | AsyncGenerator[str]"]]


@dataclass(slots=True)
class Work:
    """One piece of work that calls models: a question, or a document that is processed.

    Attributes:
        urgent: whether a person waits for it.
        tokens: what its chat calls took so far.
        failure: the first failure of a model, since LightRAG does not hand every one on.
        workspace: whose document it is; empty for a question.
    """

    urgent: bool = False
    tokens: int = 0
    failure: ModelFailedError | None = None
    workspace: str = ""


# Set by whoever begins a piece of work; LightRAG's tasks inherit it down to the model call.
WORK: ContextVar[Work | None] = ContextVar("work", default=None)


# The tasks that wait for a model, by workspace. LightRAG leaves them running when its own run is
# cancelled, and they would go on in storages that are closed.
_CALLERS: defaultdict[str, set[asyncio.Task[Any]]] = defaultdict(set)


async def end_calls(workspace: str) -> None:
    """Cancel what still waits for a model on behalf of a workspace's documents."""
    callers = _CALLERS.pop(workspace, set())
    for task in callers:
        task.cancel()
    await asyncio.gather(*callers, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Vectors:
    """What a workspace remembers of its embedding model."""

    model: str
    dimensions: int


class _Lanes:
    """Threads for calls in the background, and as many for calls that a person waits for."""

    def __init__(self, name: str, calls: int) -> None:
        most = max(1, calls // 2)
        self._background = ThreadPoolExecutor(most, f"{name}-background")
        self._urgent = ThreadPoolExecutor(most, f"{name}-urgent")

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call for the present work; its failure is kept there, and raised."""
        work = WORK.get() or Work()
        lane = self._urgent if work.urgent else self._background
        caller = asyncio.current_task()
        if work.workspace and caller is not None:
            _CALLERS[work.workspace].add(caller)
            caller.add_done_callback(_CALLERS[work.workspace].discard)
        try:
            return await asyncio.get_running_loop().run_in_executor(lane, call)
        except ModelFaultError as fault:
            failure = ModelFailedError(fault.problem, fault.mend)
            work.failure = work.failure or failure
            raise failure from fault

    def close(self) -> None:
        """Begin no further call; one that is under way ends by its own timeout."""
        for lane in (self._background, self._urgent):
            lane.shutdown(wait=False, cancel_futures=True)


class Models:
    """Both models, shared by all workspaces.

    Args:
        chat: where the chat model is; half of its calls at once are for who waits.
        embedder: the embedding model, an endpoint or one of this machine.
        embedding_calls: how many of its calls run at once, half of them for who waits.
        count: counts a text's tokens, for endpoints that do not tell what a call took.
    """

    def __init__(
        self,
        chat: Endpoint,
        embedder: EmbeddingEndpoint | LocalEmbedder,
        *,
        embedding_calls: int,
        count: Callable[[str], int],
    ) -> None:
        self._chat = ChatEndpoint(chat)
        self._embedder = embedder
        self._chatting = _Lanes("chat", chat.concurrency)
        self._embedding = _Lanes("embedding", embedding_calls)
        self._count = count

    async def vectors(self) -> Vectors:
        """Return name and length of the vectors; an endpoint may have to be asked.

        Raises:
            ModelFailedError: it does not answer.
        """
        embedder = self._embedder
        return await self._embedding.run(lambda: Vectors(embedder.identity, embedder.dimension))

    def chat_function(self) -> ChatFunction:
        """Return LightRAG's `llm_model_func`; a plain function, which survives its deep copies.

        LightRAG's wish for JSON is not passed on: not every server knows it, and LightRAG mends
        what is none.
        """

        async def llm_model_func(
            prompt: str,
            system_prompt: str | None = None,
            history_messages: Sequence[Mapping[str, str]] | None = None,
            **options: Any,
        ) -> str | AsyncGenerator[str]:
            messages = [{"role": "system", "content": system_prompt}] if system_prompt else []
            messages += [dict(turn) for turn in history_messages or ()]
            messages.append({"role": "user", "content": prompt})
            if options.get("stream"):
                return await self._streamed(messages)
            return await self._said(messages)

        return llm_model_func

    async def _said(self, messages: Sequence[Mapping[str, str]]) -> str:
        work = WORK.get() or Work()
        reply = await self._chatting.run(partial(self._chat.converse, messages, urgent=work.urgent))
        asked = [message["content"] for message in messages]
        work.tokens += reply.tokens or sum(map(self._count, [*asked, reply.text]))
        return reply.text

    async def _streamed(self, messages: Sequence[Mapping[str, str]]) -> AsyncGenerator[str]:
        try:
            return await self._chat.stream(messages)
        except ModelFailedError as failure:
            work = WORK.get() or Work()
            work.failure = work.failure or failure
            raise

    def embedding_function(self) -> Callable[..., Awaitable[Any]]:
        """Return what LightRAG's `EmbeddingFunc` wraps: texts in, rows of float32 out."""

        async def embed(texts: Sequence[str], *, context: str = "document", **_options: Any) -> Any:
            query = context == "query"
            return await self._embedding.run(partial(self._embedder.embed, texts, query=query))

        return embed

    async def close(self) -> None:
        """Close the threads and the connections."""
        self._chatting.close()
        self._embedding.close()
        await self._chat.close()
        if isinstance(self._embedder, EmbeddingEndpoint):
            self._embedder.close()
