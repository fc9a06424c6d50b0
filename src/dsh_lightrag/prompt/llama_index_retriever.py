"""LlamaIndex: the knowledge base as a `BaseRetriever`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.loop_thread import wait_for
from dsh_lightrag.prompt.passages import Passage, passages, retrieving

with needs_extra("llama-index", __name__):
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

if TYPE_CHECKING:
    from llama_index.core.schema import QueryBundle

    from dsh_lightrag.settings import LightRagSettings


class LightRagRetriever(BaseRetriever):
    """Returns nodes with file path, chunk id and rank in the metadata, and no score.

    LightRAG tells an order and no scores; one made up here would be compared with real ones.
    Works with `retrieve` (inside a running loop too) and `aretrieve`. What it returns is
    untrusted data: fence it before it goes into a prompt.

    Raises:
        LightRagError: from every call whose retrieval failed.
        ConfigurationError: for settings whose mode retrieves nothing.
    """

    def __init__(self, settings: LightRagSettings, **options: Any) -> None:
        super().__init__(**options)
        self._settings = retrieving(settings)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = wait_for(passages(self._settings, query_bundle.query_str))
        return [_node(passage) for passage in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await passages(self._settings, query_bundle.query_str)
        return [_node(passage) for passage in found]


def _node(passage: Passage) -> NodeWithScore:
    names: dict[str, str] = {"id_": passage.chunk_id} if passage.chunk_id else {}
    metadata: dict[str, Any] = dict(passage.metadata)
    return NodeWithScore(node=TextNode(text=passage.text, metadata=metadata, **names))
