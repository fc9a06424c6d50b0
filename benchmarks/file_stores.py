"""LightRAG's default file stores in this process, asked as its own query asks them.

Vectors of chunks, entities and relations in `NanoVectorDBStorage`, the graph in `NetworkXStorage`,
chunks' texts in `JsonKVStorage` (lightrag-hku 1.5.7). A naive question is LightRAG's own
`_get_vector_context`; a mix question adds its `_get_node_data` and `_get_edge_data`, and looks up
the texts of the chunks that those entities came from. What LightRAG does besides (asking a model
for keywords, embedding, cutting to token budgets, wording) is left out on both sides. An
insertion upserts one chunk, its names and their pairs, and has every store write its file, which is
what makes it durable there.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING, Any

from lightrag.base import QueryParam
from lightrag.constants import GRAPH_FIELD_SEP
from lightrag.kg.json_kv_impl import JsonKVStorage
from lightrag.kg.nano_vector_db_impl import NanoVectorDBStorage
from lightrag.kg.networkx_impl import NetworkXStorage
from lightrag.kg.shared_storage import initialize_share_data
from lightrag.operate import _get_edge_data, _get_node_data, _get_vector_context
from lightrag.utils import EmbeddingFunc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Rows = Callable[[Sequence[str]], NDArray[np.float32]]
    Chunk = tuple[str, str, Sequence[str]]  # id, text, names

_FIELDS = {
    "chunks": {"full_doc_id", "content", "file_path"},
    "entities": {"entity_name", "source_id", "content", "file_path"},
    "relationships": {"src_id", "tgt_id", "source_id", "content", "file_path"},
}
_PER_ENTITY = 5  # LightRAG's default number of chunks looked up for an entity


class FileStores:
    """The stores of one folder; opened when made."""

    def __init__(self, folder: Path, dimension: int, rows: Rows) -> None:
        for logger in ("lightrag", "nano-vectordb"):
            logging.getLogger(logger).setLevel(logging.ERROR)
        initialize_share_data(1)
        self._loop = asyncio.new_event_loop()

        async def embed(texts: list[str], **_: Any) -> NDArray[np.float32]:
            return rows(texts)

        shared: dict[str, Any] = {
            "workspace": "",
            "global_config": {
                "working_dir": str(folder),
                "embedding_batch_num": 1000,
                "vector_db_storage_cls_kwargs": {"cosine_better_than_threshold": -1.0},
            },
            "embedding_func": EmbeddingFunc(embedding_dim=dimension, func=embed),
        }
        self._vectors = {
            name: NanoVectorDBStorage(namespace=name, meta_fields=fields, **shared)
            for name, fields in _FIELDS.items()
        }
        self._graph = NetworkXStorage(namespace="chunk_entity_relation", **shared)
        self._texts = JsonKVStorage(namespace="text_chunks", **shared)
        self._all = [*self._vectors.values(), self._graph, self._texts]
        self._run(self._begin())

    async def _begin(self) -> None:
        for store in self._all:
            await store.initialize()

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def insert(self, chunks: Sequence[Chunk]) -> None:
        """Store chunks with their names, and the pairs of names that stand in the same chunk."""
        self._run(self._insert(chunks))

    async def _insert(self, chunks: Sequence[Chunk]) -> None:
        sources: dict[str, list[str]] = {}
        pairs: dict[tuple[str, str], list[str]] = {}
        for id_, _, names in chunks:
            for name in dict.fromkeys(names):
                sources.setdefault(name, []).append(id_)
            for one, other in itertools.combinations(sorted(set(names)), 2):
                pairs.setdefault((one, other), []).append(id_)
        texts = {
            id_: {"content": text, "full_doc_id": "d", "file_path": "f"} for id_, text, _ in chunks
        }
        joined = {name: GRAPH_FIELD_SEP.join(ids) for name, ids in sources.items()}
        await self._texts.upsert(
            {id_: {**row, "tokens": 1, "chunk_order_index": 0} for id_, row in texts.items()}
        )
        await self._vectors["chunks"].upsert(texts)
        await self._vectors["entities"].upsert(
            {
                f"ent-{name}": {
                    "entity_name": name,
                    "source_id": source,
                    "content": name,
                    "file_path": "f",
                }
                for name, source in joined.items()
            }
        )
        await self._vectors["relationships"].upsert(
            {
                f"rel-{one}-{other}": {
                    "src_id": one,
                    "tgt_id": other,
                    "source_id": GRAPH_FIELD_SEP.join(ids),
                    "content": f"{one} {other}",
                    "file_path": "f",
                }
                for (one, other), ids in pairs.items()
            }
        )
        node = {"entity_type": "other", "description": "", "file_path": "f"}
        await self._graph.upsert_nodes_batch(
            [(name, {**node, "entity_id": name, "source_id": joined[name]}) for name in joined]
        )
        edge = {"weight": 1.0, "description": "", "keywords": "", "file_path": "f"}
        await self._graph.upsert_edges_batch(
            [
                (one, other, {**edge, "source_id": GRAPH_FIELD_SEP.join(ids)})
                for (one, other), ids in pairs.items()
            ]
        )
        for store in self._all:
            await store.index_done_callback()

    def naive(self, question: str, vector: NDArray[np.float32]) -> int:
        """Return how many chunks a naive question finds."""
        return len(self._run(self._naive(question, vector)))

    async def _naive(self, question: str, vector: NDArray[np.float32]) -> list[dict[str, Any]]:
        asked = QueryParam(mode="naive")
        found = await _get_vector_context(question, self._vectors["chunks"], asked, vector)
        return list(found)

    def mix(self, question: str, vector: NDArray[np.float32]) -> int:
        """Return how many chunks a mix question finds, by vectors and by entities."""
        return int(self._run(self._mix(question, vector)))

    async def _mix(self, question: str, vector: NDArray[np.float32]) -> int:
        asked = QueryParam(mode="mix")
        nodes, _ = await _get_node_data(
            question, self._graph, self._vectors["entities"], asked, vector
        )
        await _get_edge_data(question, self._graph, self._vectors["relationships"], asked, vector)
        found = await self._naive(question, vector)
        ids = dict.fromkeys(
            id_ for node in nodes for id_ in node["source_id"].split(GRAPH_FIELD_SEP)[:_PER_ENTITY]
        )
        texts = await self._texts.get_by_ids(list(ids))
        return len(found) + sum(text is not None for text in texts)

    def close(self) -> None:
        """Let the files go."""
        self._loop.close()
