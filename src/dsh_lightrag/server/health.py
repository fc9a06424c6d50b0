"""GET /health: that the server lives, and, for who has credentials, what it is made of.

The long form has every field of LightRAG's that its web page and clients read. What this server
does not have is null, none or zero, never invented.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from dsh_lightrag.server.backend import Keeper, PipelineState

# The LightRAG whose API this is.
CORE_VERSION = "1.5.7"
API_VERSION = "0344"
Json = dict[str, Any]
PAGES: Json = {"webui_title": None, "webui_description": None, "ai_content_notice_enabled": False}
_LOCKS = "total_mp_locks pending_mp_cleanup total_async_locks pending_async_cleanup"
_STORAGES = ("kv_storage", "doc_status_storage", "graph_storage", "vector_storage")
_UNKNOWN = (
    "llm_binding llm_binding_host llm_model embedding_binding embedding_binding_host "
    "embedding_model summary_max_tokens summary_context_size kv_storage doc_status_storage "
    "graph_storage vector_storage rerank_binding rerank_model rerank_binding_host "
    "rerank_max_async rerank_timeout summary_language force_llm_summary_on_merge "
    "max_parallel_insert cosine_threshold min_rerank_score related_chunk_number max_async "
    "llm_timeout embedding_func_max_async embedding_batch_num embedding_timeout"
)


def short(state: PipelineState, *, scanning: bool, web_ui: bool) -> Json:
    """Return what anybody may know."""
    waiting = bool(state.deleting or state.pending_enqueues)
    return {
        "status": "healthy",
        "auth_mode": "disabled",
        "core_version": CORE_VERSION,
        "api_version": API_VERSION,
        "webui_available": web_ui,
        "workspace_available": False,
        "api_docs_available": False,
        **PAGES,
        "pipeline_busy": state.busy,
        "pipeline_active": state.busy or waiting or scanning,
        "workspace_isolation": True,
        "server": f"dsh-lightrag {__version__}",
    }


def long(
    keeper: Keeper, workspace: str, state: PipelineState, *, scanning: bool, web_ui: bool
) -> Json:
    """Return what who has credentials may know; folders are named as the data folder's parts."""
    return {
        **short(state, scanning=scanning, web_ui=web_ui),
        "working_directory": workspace,
        "input_directory": f"inputs/{workspace}",
        "configuration": _configuration(keeper, workspace),
        "server_mode": "uvicorn",
        "workers": 1,
        "pipeline_scanning": scanning,
        "pipeline_destructive_busy": state.deleting,
        "pipeline_pending_enqueues": state.pending_enqueues,
        "scheduling": {"manual_phase": "idle", "manual_retries_queued": 0},
        "capabilities": {},
        "scheduling_metrics": {"counters": {}, "durations": {}},
        "keyed_locks": {
            "process_id": os.getpid(),
            "cleanup_performed": {"mp_cleaned": 0, "async_cleaned": 0},
            "current_status": dict.fromkeys(_LOCKS.split(), 0),
        },
        "llm_queue_status": {},
        "embedding_queue_status": {"available": False},
        "rerank_queue_status": {"available": False},
    }


def _configuration(keeper: Keeper, workspace: str) -> Json:
    return {
        **dict.fromkeys(_UNKNOWN.split()),
        "enable_llm_cache_for_extract": False,
        "enable_llm_cache": False,
        "vlm_process_enable": False,
        "enable_rerank": False,
        "max_graph_nodes": 1000,
        "workspace": workspace,
        "storage_workspaces": dict.fromkeys(_STORAGES, workspace),
        "role_llm_config": {},
        "parser_routing": "",
        "mineru": {"endpoint": "", "api_mode": None, "options": {}},
        "docling": {"endpoint": "", "options": {}},
        "backend": keeper.kind,
        "answers": keeper.answers,
        **keeper.configuration(),
    }
