"""One open workspace of LightRAG's core."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lightrag.base import DocStatus, SourceAbsent
from lightrag.exceptions import PipelineReservationConflictError
from lightrag.utils_pipeline import normalize_document_file_path

from dsh_lightrag.server.backend import (
    DELETING,
    BusyError,
    Edge,
    NameTakenError,
    Node,
    Page,
    Subgraph,
    UnknownDocumentsError,
)
from dsh_lightrag.server.core import asking
from dsh_lightrag.server.core.inside import forget
from dsh_lightrag.server.core.models import end_calls
from dsh_lightrag.server.core.pipeline import UNFINISHED, Pipeline
from dsh_lightrag.server.core.rows import counts_of, row_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_lightrag.server.backend import (
        Answer,
        Ask,
        DocumentRow,
        Evidence,
        NewDocument,
        PageWanted,
        PipelineState,
    )
    from dsh_lightrag.server.core.inside import Core
    from dsh_lightrag.server.core.registry import Registry

# The names that LightRAG's server gives to a text's chunking when a request says nothing of it.
_CHUNKING = "F"


class CoreBackend:
    """A workspace that this process holds; made by the keeper, closed by whoever opened it.

    A closed one cannot be used again: LightRAG's storages would fail inside.
    """

    def __init__(self, name: str, core: Core, registry: Registry) -> None:
        self._name = name
        self._core = core
        self._registry = registry
        self._pipeline = Pipeline(core, self._hold)
        self._filing = asyncio.Lock()

    async def start(self, deleting: Sequence[str]) -> None:
        """Open the storages and take up what the process before left unfinished."""
        await self._core.initialize_storages()
        if deleting:
            await self._pipeline.delete(deleting, _nothing, self._forget_deletions)
        else:
            self._pipeline.drive()

    async def _hold(self) -> None:
        await self._registry.hold(self._name)

    # --- asking -------------------------------------------------------------------------------

    async def evidence(self, ask: Ask) -> Evidence:
        """Retrieve; raises `ModelFailedError`."""
        return await asking.evidence(self._core, ask)

    async def answer(self, ask: Ask, *, stream: bool) -> Answer:
        """Answer; raises `ModelFailedError`, for a stream while it is read."""
        return await asking.answer(self._core, ask, stream=stream)

    # --- documents ----------------------------------------------------------------------------

    async def insert(self, documents: Sequence[NewDocument], track_id: str) -> None:
        """File documents under their canonical names, and process them in the background.

        Looking for the names and filing are one step, so of several that come at once with one
        name, one is filed and the others are told. A text that is stored under another name
        becomes a failed row that points at it, as LightRAG makes it.
        """
        await self._hold()
        names = [normalize_document_file_path(document.file_source) for document in documents]
        async with self._filing:
            await self._refuse_taken(names)
            try:
                await self._core.apipeline_enqueue_documents(
                    [document.text for document in documents],
                    file_paths=names,
                    track_id=track_id,
                    process_options=_CHUNKING,
                )
            except PipelineReservationConflictError as error:
                raise BusyError(DELETING) from error
        self._pipeline.drive()

    async def _refuse_taken(self, names: Sequence[str]) -> None:
        for place, name in enumerate(names):
            status = "in the same request" if name in names[:place] else ""
            found = await self._core.doc_status.resolve_doc_source_strict(name)
            if not isinstance(found, SourceAbsent):
                row = await self.named(name)
                status = f"Status: {row.status}" if row else "several rows"
            if status:
                raise NameTakenError(
                    f"Document storage already contains {name!r} ({status}).",
                    "Delete the existing record before inserting again.",
                )

    async def record_failure(self, file_source: str, reason: str, track_id: str) -> None:
        """File a document that could not be read, as a failed row with its reason."""
        await self._hold()
        failure = {
            "file_path": normalize_document_file_path(file_source),
            "error_description": "File extraction failed",
            "original_error": reason,
        }
        async with self._filing:
            await self._core.apipeline_enqueue_error_documents([failure], track_id)

    async def page(self, wanted: PageWanted) -> Page:
        """Return a part of the document list; LightRAG's pages hold 10 to 200 rows."""
        rows, total = await self._core.doc_status.get_docs_paginated(
            status_filters=[DocStatus(status) for status in wanted.statuses] or None,
            page=wanted.page,
            page_size=wanted.page_size,
            sort_field=wanted.sort_field,
            sort_direction="desc" if wanted.descending else "asc",
        )
        counts = await self._core.doc_status.get_all_status_counts()
        return Page(
            rows=tuple(row_of(doc_id, stored) for doc_id, stored in rows),
            total=total,
            counts=counts_of(counts),
        )

    async def tracked(self, track_id: str) -> Sequence[DocumentRow]:
        """Return the documents of one insertion."""
        found = await self._core.doc_status.get_docs_by_track_id(track_id)
        return [row_of(doc_id, stored) for doc_id, stored in found.items()]

    async def named(self, file_name: str) -> DocumentRow | None:
        """Return the document filed under a canonical name, or None."""
        name = normalize_document_file_path(file_name)
        found = await self._core.doc_status.get_doc_by_file_basename(name)
        return None if found is None else row_of(*found)

    async def delete(self, ids: Sequence[str]) -> None:
        """Begin to delete documents; what was begun is finished even after a crash."""
        await self._hold()
        wanted = list(dict.fromkeys(ids))
        found = await self._core.doc_status.get_docs_by_ids(wanted, strict=True)
        unknown = [doc_id for doc_id in wanted if doc_id not in found]
        if unknown:
            raise UnknownDocumentsError(
                f"{len(unknown)} of {len(wanted)} ids are not in the workspace: {unknown[0]}",
                "Look the ids up in the document list.",
            )

        async def remember() -> None:
            await self._registry.note_deletions(self._name, wanted)

        await self._pipeline.delete(wanted, remember, self._forget_deletions)

    async def _forget_deletions(self) -> None:
        await self._registry.note_deletions(self._name, ())

    async def clear(self) -> int:
        """Delete every document and return how many there were."""
        await self._hold()
        async with self._filing:
            counts = counts_of(await self._core.doc_status.get_all_status_counts())
            await self._pipeline.clear()
        return sum(counts.values())

    async def clear_cache(self) -> None:
        """Forget what the model extracted; a later deletion then asks it again."""
        await self._hold()
        await self._core.aclear_cache()

    async def retry_failed(self, track_id: str) -> int:
        """Let failed and unfinished documents be processed again, each under its own track."""
        del track_id
        await self._hold()
        status = self._core.doc_status
        found = await status.get_docs_by_statuses([DocStatus.FAILED, *UNFINISHED], strict=True)
        # A row that only tells of a failure has no text: nothing could be processed.
        absent = await self._core.full_docs.filter_keys(set(found))
        again = set(found) - set(absent)
        await self._pipeline.retry()
        return len(again)

    async def pipeline(self) -> PipelineState:
        """Tell what the workspace is busy with."""
        return await self._pipeline.state()

    # --- graph --------------------------------------------------------------------------------

    @property
    def _graph(self) -> Any:
        return self._core.chunk_entity_relation_graph

    async def labels(self) -> Sequence[str]:
        """Return every entity's name, sorted."""
        return sorted(await self._graph.get_all_labels())

    async def popular_labels(self, limit: int) -> Sequence[str]:
        """Return the names with the most relations."""
        return list(await self._graph.get_popular_labels(limit))

    async def search_labels(self, text: str, limit: int) -> Sequence[str]:
        """Return names that contain a text, whatever its case."""
        return list(await self._graph.search_labels(text, limit))

    async def subgraph(self, label: str, depth: int, most: int) -> Subgraph:
        """Return what lies around a name; LightRAG gives at most 1000 nodes."""
        found = await self._core.get_knowledge_graph(label, max_depth=depth, max_nodes=most)
        return Subgraph(
            nodes=tuple(_node(node.id, node.properties) for node in found.nodes),
            edges=tuple(_edge(edge.source, edge.target, edge.properties) for edge in found.edges),
            is_truncated=bool(found.is_truncated),
        )

    async def has_entity(self, name: str) -> bool:
        """Tell whether there is an entity of exactly this name."""
        return bool(await self._graph.has_node(name))

    async def close(self) -> None:
        """Stop the background work and let go of the workspace and of its memory."""
        try:
            await self._pipeline.close()
            await end_calls(self._name)
            await self._core.finalize_storages()
        finally:
            await forget(self._name)
            await self._registry.release(self._name)


async def _nothing() -> None:
    """Stand where nothing has to be done."""


def _node(name: str, properties: dict[str, Any]) -> Node:
    return Node(
        id=name,
        entity_type=str(properties.get("entity_type") or ""),
        description=str(properties.get("description") or ""),
        source_id=str(properties.get("source_id") or ""),
        file_path=str(properties.get("file_path") or ""),
        created_at=int(properties.get("created_at") or 0),
    )


def _edge(source: str, target: str, properties: dict[str, Any]) -> Edge:
    return Edge(
        source=source,
        target=target,
        weight=float(properties.get("weight") or 0.0),
        description=str(properties.get("description") or ""),
        keywords=str(properties.get("keywords") or ""),
        source_id=str(properties.get("source_id") or ""),
        file_path=str(properties.get("file_path") or ""),
        created_at=int(properties.get("created_at") or 0),
    )
