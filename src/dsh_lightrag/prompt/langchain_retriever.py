"""LangChain: the knowledge base as a `BaseRetriever`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.loop_thread import wait_for
from dsh_lightrag.prompt.passages import Passage, passages, retrieving
from dsh_lightrag.settings import LightRagSettings  # noqa: TC001 - pydantic reads it

with needs_extra("langchain", __name__):
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

if TYPE_CHECKING:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )


class LightRagRetriever(BaseRetriever):
    """Returns passages with file path, chunk id and rank in the metadata.

    Works with `invoke` (inside a running loop too) and `ainvoke`. What it returns is untrusted
    data: fence it before it goes into a prompt.

    Raises:
        LightRagError: from every call whose retrieval failed.
        ConfigurationError: for settings whose mode retrieves nothing.
    """

    settings: LightRagSettings

    def __init__(self, settings: LightRagSettings, **options: Any) -> None:
        # Not in a validator: pydantic would make an error of its own out of ours.
        super().__init__(settings=retrieving(settings), **options)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the signature is LangChain's
    ) -> list[Document]:
        return [_document(passage) for passage in wait_for(passages(self.settings, query))]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - as above
    ) -> list[Document]:
        return [_document(passage) for passage in await passages(self.settings, query)]


def _document(passage: Passage) -> Document:
    metadata: dict[str, Any] = dict(passage.metadata)
    return Document(page_content=passage.text, metadata=metadata, id=passage.chunk_id or None)
