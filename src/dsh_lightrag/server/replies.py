"""What clients get: LightRAG's JSON, made of a backend's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from dsh_lightrag.server.backend import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_lightrag.server.backend import (
        DocumentRow,
        Evidence,
        Mode,
        Page,
        PageWanted,
        PipelineState,
        ReferenceFound,
        Subgraph,
    )

Json = dict[str, Any]
_STATUSES: tuple[Status, ...] = get_args(Status)
_NOTHING_FOUND = {"naive": "No relevant document chunks found."}
_STORES = (
    "full_docs text_chunks full_entities full_relations entity_chunks relation_chunks entities "
    "relationships chunks chunk_entity_relation llm_response_cache doc_status"
)


# --- asking -----------------------------------------------------------------------------------


def references(found: Sequence[ReferenceFound], *, content: bool) -> list[Json]:
    """Return an answer's files, with their passages when these are wanted."""
    return [
        {"reference_id": one.reference_id, "file_path": one.file_path}
        | ({"content": list(one.content)} if content else {})
        for one in found
    ]


def evidence(found: Evidence, mode: Mode) -> Json:
    """Return the whole reply of /query/data; an empty base is no failure of the server."""
    if found.empty and mode != "bypass":
        return {
            "status": "failure",
            "message": _NOTHING_FOUND.get(mode, "Query returned no results"),
            "data": {},
            "metadata": {"failure_reason": "no_results", "mode": mode},
        }
    keywords = {"high_level": list(found.high_level), "low_level": list(found.low_level)}
    metadata: Json = {"query_mode": mode, "keywords": keywords}
    if mode != "bypass":
        chunks = len(found.chunks)
        naive = {"total_chunks_found": chunks, "final_chunks_count": chunks}
        metadata["processing_info"] = (naive if mode == "naive" else {}) | dict(
            found.processing_info
        )
    return {
        "status": "success",
        "message": "Query processed successfully",
        "data": _data(found),
        "metadata": metadata,
    }


def _data(found: Evidence) -> Json:
    return {
        "entities": [
            {
                "entity_name": one.entity_name,
                "entity_type": one.entity_type,
                "description": one.description,
                "source_id": one.source_id,
                "file_path": one.file_path,
                "created_at": _seconds(one.created_at),
            }
            for one in found.entities
        ],
        "relationships": [
            {
                "src_id": one.src_id,
                "tgt_id": one.tgt_id,
                "description": one.description,
                "keywords": one.keywords,
                "weight": one.weight,
                "source_id": one.source_id,
                "file_path": one.file_path,
                "created_at": _seconds(one.created_at),
            }
            for one in found.relations
        ],
        "chunks": [
            {
                "reference_id": one.reference_id,
                "content": one.content,
                "file_path": one.file_path,
                "chunk_id": one.chunk_id,
            }
            for one in found.chunks
        ],
        "references": references(found.references, content=False),
    }


def _seconds(created_at: str) -> int | str | None:
    """Return a time as LightRAG does, in seconds; null where none is known."""
    return int(created_at) if created_at.isdecimal() else created_at or None


# --- documents --------------------------------------------------------------------------------


def document(row: DocumentRow) -> Json:
    """Return a row of the document list."""
    return {
        "id": row.id,
        "content_summary": row.content_summary,
        "content_length": row.content_length,
        "status": row.status,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "track_id": row.track_id,
        "chunks_count": row.chunks_count,
        "error_msg": row.error_msg,
        "metadata": dict(row.metadata),
        "file_path": row.file_path,
    }


def page(found: Page, wanted: PageWanted) -> Json:
    """Return a part of the document list with where it stands and the counts of all."""
    pages = -(-found.total // wanted.page_size)
    return {
        "documents": [document(row) for row in found.rows],
        "pagination": {
            "page": wanted.page,
            "page_size": wanted.page_size,
            "total_count": found.total,
            "total_pages": pages,
            "has_next": wanted.page < pages,
            "has_prev": wanted.page > 1,
        },
        "status_counts": counts(found.counts),
    }


def counts(found: Mapping[Status, int]) -> Json:
    """Return how many documents are in each status, and in all."""
    each: Json = {status: found.get(status, 0) for status in _STATUSES}
    return {**each, "all": sum(each.values())}


def track(track_id: str, rows: Sequence[DocumentRow]) -> Json:
    """Return the documents of one insertion; its summary has LightRAG's own keys."""
    statuses = [row.status for row in rows]
    return {
        "track_id": track_id,
        "documents": [document(row) for row in rows],
        "total_count": len(rows),
        "status_summary": {
            f"DocStatus.{status.upper()}": statuses.count(status)
            for status in dict.fromkeys(statuses)
        },
    }


def pipeline(state: PipelineState, *, scanning: bool) -> Json:
    """Return what a workspace is busy with."""
    return {
        "busy": state.busy,
        "job_name": state.job_name,
        "job_start": None if state.job_start is None else state.job_start.isoformat(),
        "docs": state.docs,
        "batchs": state.batchs,
        "cur_batch": state.cur_batch,
        "latest_message": state.latest_message,
        "history_messages": list(state.history_messages),
        # One process, one writer: no other worker's copy is ever out of date.
        "update_status": {store: [False] for store in _STORES.split()},
        "recovery_required": False,
        "recovery_kind": None,
        "recovery_message": None,
        "destructive_busy": state.deleting,
        "scanning": scanning,
        "scanning_exclusive": False,
        "pending_enqueues": state.pending_enqueues,
        "cancellation_requested": False,
        "cancellation_reason": None,
        "cancellation_detail": None,
    }


# --- graph ------------------------------------------------------------------------------------


def graph(found: Subgraph) -> Json:
    """Return nodes and edges as LightRAG's web page draws them."""
    return {
        "nodes": [
            {
                "id": node.id,
                "labels": [node.id],
                "properties": {
                    "entity_id": node.id,
                    "entity_type": node.entity_type,
                    "description": node.description,
                    "source_id": node.source_id,
                    "file_path": node.file_path,
                    "created_at": node.created_at,
                    "truncate": "",
                },
            }
            for node in found.nodes
        ],
        "edges": [
            {
                "id": f"{edge.source}-{edge.target}",
                "type": "DIRECTED",
                "source": edge.source,
                "target": edge.target,
                "properties": {
                    "weight": edge.weight,
                    "description": edge.description,
                    "keywords": edge.keywords,
                    "source_id": edge.source_id,
                    "file_path": edge.file_path,
                    "created_at": edge.created_at,
                    "truncate": "",
                },
            }
            for edge in found.edges
        ],
        "is_truncated": found.is_truncated,
    }
