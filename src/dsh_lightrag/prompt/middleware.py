"""The `lightrag` middleware: retrieve for a task, and put what was found before it.

One request, `POST /query` with `only_need_context`, through the plugin's own client. What the
server retrieved is cleaned where replies are parsed; here it is checked, bounded and fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dsh_lightrag.budget import Budget
from dsh_lightrag.client import LightRagClient
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.logs import recorded
from dsh_lightrag.loop_thread import wait_for
from dsh_lightrag.prompt.block import make_block
from dsh_lightrag.prompt.config import KnowledgeConfig
from dsh_lightrag.question import accepted_question
from dsh_lightrag.text import clean
from dsh_lightrag.wire import BACKEND_FAILED, NO_CONTEXT_MARK, QueryRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dsh_lightrag.prompt.document import PromptDocument
    from dsh_lightrag.transport import Transport

# Retrieved context that quotes the mark is long; the server's reply that carries it is a sentence.
_LONGEST_EMPTY_REPLY = 400


class EmptyRetrievalError(LightRagError):
    """The server answered, and had nothing on the task."""

    def __init__(self) -> None:
        super().__init__(
            Code.NOT_FOUND,
            "The index has nothing for this prompt.",
            hint="Check with dsh_lightrag_status that documents are ingested, set query, or "
            "allow an empty retrieval (required: false, on_error: warn).",
            status=200,
        )


class KnowledgeMiddleware:
    """Puts retrieved context before a task; never changes the task.

    Each call opens a connection and closes it; an own `transport` stays with whoever made it.
    """

    def __init__(
        self,
        config: KnowledgeConfig | Mapping[str, object],
        *,
        transport: Transport | None = None,
    ) -> None:
        self.config = (
            config if isinstance(config, KnowledgeConfig) else KnowledgeConfig.from_row(config)
        )
        self._transport = transport

    @property
    def destinations(self) -> tuple[str, ...]:
        """The one address that is asked, and the variable whose value goes there as the key."""
        address = f"{self.config.origin}{self.config.base_path}"
        variable = self.config.api_key_env
        return (f"{address} (with the key in {variable})" if variable else address,)

    def enhance(self, document: PromptDocument) -> PromptDocument:
        """Return the document with one block more, or as it was; works inside a running loop.

        Raises:
            LightRagError: the retrieval failed and `on_error` is `fail`.
            EmptyRetrievalError: nothing was found and `required` or `on_error` says to fail.
        """
        return wait_for(self.aenhance(document))

    async def aenhance(self, document: PromptDocument) -> PromptDocument:
        """As `enhance`, for code that awaits."""
        config = self.config
        failure: Literal["warning"] | None = None if config.on_error == "skip" else "warning"
        try:
            with recorded("prompt_call", failure=failure) as facts:
                context = await self._retrieve(document.task)
                block = make_block(
                    config.label, context, config.max_context_chars, fence=config.fence
                )
                facts |= {"context_chars": len(context), "block_chars": len(block.text)}
        except LightRagError as error:
            if self._is_fatal(error):
                raise
            return document
        return document.with_block(block)

    def _is_fatal(self, error: LightRagError) -> bool:
        if isinstance(error, EmptyRetrievalError) and self.config.required:
            return True
        return self.config.on_error == "fail"

    async def _retrieve(self, task: str) -> str:
        """Return retrieved text that may stand in a prompt.

        Raises:
            LightRagError: as the client; `invalid-argument` for a task that cannot be asked;
                `server-error` when the server's model backend failed.
            EmptyRetrievalError: there is no such text.
        """
        request = self._request(task)
        if self._transport is not None:
            return await self._ask(self._transport, request)
        # Not at the top: httpx loads Rich where Rich is installed, and checking a pipeline file
        # need not wait for either. The budget starts after it.
        from dsh_lightrag.transport import Transport  # noqa: PLC0415 - as above

        async with Transport(self.config.connection) as transport:
            return await self._ask(transport, request)

    async def _ask(self, transport: Transport, request: QueryRequest) -> str:
        client = LightRagClient(transport, Budget.start(self.config.timeout_ms))
        return retrieved_context((await client.query(request)).response)

    def _request(self, task: str) -> QueryRequest:
        config = self.config
        # Cleaned, since a prompt may hold what JSON cannot carry; the prompt itself stays as it is.
        query = clean(task if config.query is None else config.query)
        try:
            question = accepted_question(query, config.mode, "the task instruction")
        except LightRagError as error:
            raise LightRagError(
                error.code, error.message, hint="Set query to what is to be retrieved."
            ) from None
        return QueryRequest(
            query=question,
            mode=config.mode,
            top_k=config.top_k,
            include_references=False,
            only_need_context=True,
            stream=False,
        )


def retrieved_context(response: str) -> str:
    """Return a reply as context, unless it is one of LightRAG's ways to say that it has none.

    Raises:
        EmptyRetrievalError: it is blank, or the reply of an index that has nothing.
        LightRagError: `server-error`, when it is the reply of a dead model backend.
    """
    said = response.strip()
    if said.casefold() == BACKEND_FAILED.casefold():
        raise LightRagError(
            Code.SERVER_ERROR,
            "The server's model or embedding backend failed, so nothing was retrieved.",
            hint="Check the server's model and embedding settings (key, quota, address) and its "
            "log; mode naive needs no language model.",
            status=200,
        )
    if not said or said.endswith(NO_CONTEXT_MARK):
        raise EmptyRetrievalError
    if NO_CONTEXT_MARK in said and len(said) <= _LONGEST_EMPTY_REPLY:
        raise EmptyRetrievalError
    return response


def from_row(row: object, allowed_key_variables: Collection[str] = ()) -> KnowledgeMiddleware:
    """Build the middleware of a pipeline row: the entry point `lightrag` of `dsh.middlewares`.

    Raises:
        ConfigurationError: naming the key and the mend.
    """
    return KnowledgeMiddleware(KnowledgeConfig.from_row(row, allowed_key_variables))
