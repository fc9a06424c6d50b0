"""What the real server 1.5.7 answers, and which requests each tool makes of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT_ID = "doc-082e2a80de83262794b1010f21680642"
COUNTS = {
    "pending": 0,
    "parsing": 0,
    "analyzing": 0,
    "processing": 0,
    "preprocessed": 0,
    "processed": 1,
    "failed": 0,
    "all": 1,
}

QUERY = {
    "response": "Marie Curie discovered polonium [1].",
    "references": [
        {"reference_id": "1", "file_path": "curie.txt", "content": ["Polonium was discovered."]}
    ],
    "response_time": 0.115,
    "llm_generated": True,
}

QUERY_DATA = {
    "status": "success",
    "message": "Query processed successfully",
    "data": {
        "entities": [
            {
                "entity_name": "Polonium",
                "entity_type": "concept",
                "description": "Marie Curie discovered Polonium in Paris.",
                "source_id": f"{DOCUMENT_ID}-chunk-000",
                "file_path": "curie.txt",
                "created_at": 1796037053,
            }
        ],
        "relationships": [
            {
                "src_id": "Marie Curie",
                "tgt_id": "Polonium",
                "description": "Marie Curie is mentioned with Polonium.",
                "keywords": "relates to",
                "weight": 1.0,
                "source_id": f"{DOCUMENT_ID}-chunk-000",
                "file_path": "curie.txt",
                "created_at": 1796037053,
            }
        ],
        "chunks": [
            {
                "reference_id": "1",
                "content": "Marie Curie discovered Polonium in Paris.",
                "file_path": "curie.txt",
                "chunk_id": f"{DOCUMENT_ID}-chunk-000",
            }
        ],
        "references": [{"reference_id": "1", "file_path": "curie.txt"}],
    },
    "metadata": {
        "query_mode": "mix",
        "keywords": {"high_level": ["discovery"], "low_level": ["Polonium"]},
        "processing_info": {"total_entities_found": 1, "final_chunks_count": 1},
    },
}

PAGINATED = {
    "documents": [
        {
            "id": DOCUMENT_ID,
            "content_summary": "Marie Curie discovered Polonium in Paris.",
            "content_length": 41,
            "status": "failed",
            "created_at": "2026-11-30T11:11:01.297801+00:00",
            "updated_at": "2026-11-30T11:11:01.325524+00:00",
            "track_id": "insert_20261130_111101_264d6ddc",
            "chunks_count": 1,
            "error_msg": "AuthenticationError: Error code: 401 - bad key",
            "metadata": {"process_options": "F", "parse_start_time": 1796037061},
            "file_path": "curie.txt",
        }
    ],
    "pagination": {
        "page": 1,
        "page_size": 200,
        "total_count": 1,
        "total_pages": 1,
        "has_next": False,
        "has_prev": False,
    },
    "status_counts": COUNTS,
}

HEALTH = {
    "status": "healthy",
    "auth_mode": "disabled",
    "core_version": "1.5.7",
    "api_version": "0344",
    "webui_available": True,
    "webui_title": None,
    "pipeline_busy": False,
    "pipeline_active": False,
    "configuration": {"llm_model": "stub-chat", "workspace": ""},
}

STATUS_COUNTS = {"status_counts": COUNTS}

INSERT = {
    "status": "success",
    "message": "Text successfully received. Processing will continue in background.",
    "track_id": "insert_20261130_111206_d2044ad2",
}

SCAN = {
    "status": "scanning_started",
    "message": "Scanning process has been initiated in the background",
    "track_id": "scan_20261130_111315_5a9786cb",
}

DELETE = {
    "status": "deletion_started",
    "message": "Document deletion for 1 documents has been initiated.",
    "doc_id": DOCUMENT_ID,
}

# Each route with its real reply, and the tool that makes the request.
REPLIES: dict[str, tuple[str, dict[str, Any]]] = {
    "POST /query": ("dsh_lightrag_query", QUERY),
    "POST /query/data": ("dsh_lightrag_query_data", QUERY_DATA),
    "POST /documents/paginated": ("dsh_lightrag_documents", PAGINATED),
    "GET /health": ("dsh_lightrag_status", HEALTH),
    "GET /documents/status_counts": ("dsh_lightrag_status", STATUS_COUNTS),
    "POST /documents/text": ("dsh_lightrag_insert", INSERT),
    "POST /documents/scan": ("dsh_lightrag_scan", SCAN),
    "DELETE /documents/delete_document": ("dsh_lightrag_delete", DELETE),
}

# The first request of each tool: what goes wrong here goes wrong for the tool.
FIRST_ROUTE = {tool: route for route, (tool, _) in reversed(REPLIES.items())}

QUESTION = "Who discovered polonium, QUESTION-CANARY-51c9?"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "dsh_lightrag_query": {"question": QUESTION, "withContent": True},
    "dsh_lightrag_query_data": {"query": QUESTION},
    "dsh_lightrag_documents": {},
    "dsh_lightrag_status": {},
    "dsh_lightrag_insert": {"text": QUESTION, "source": "curie.txt"},
    "dsh_lightrag_scan": {},
    "dsh_lightrag_delete": {"documentId": DOCUMENT_ID},
}

Path = tuple[str | int, ...]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Walk every place of a JSON value, the whole of it first."""
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from places(member, (*path, index))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """Return a copy of a JSON value with one place holding something else."""
    if not path:
        return new
    changed = copy.deepcopy(value)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = new
    return changed


def without(value: Any, path: Path) -> Any:
    """Return a copy of a JSON value with one member missing."""
    changed = copy.deepcopy(value)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return changed
