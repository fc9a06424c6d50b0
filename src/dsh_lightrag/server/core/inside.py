"""All that is taken from inside LightRAG 1.5.7: its class, its globals, its log, its tokenizer.

Importing this module imports LightRAG, so `environment.enter` has to come first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightrag.kg.shared_storage as shared
from lightrag import LightRAG
from lightrag.base import DocStatus
from lightrag.utils import EmbeddingFunc, TiktokenTokenizer

from dsh_lightrag.logs import get_logger
from dsh_lightrag.server.core.models import WORK, Work
from dsh_lightrag.vocabulary import fill_tiktoken_cache

if TYPE_CHECKING:
    from dsh_lightrag.server.core.models import Models, Vectors
    from dsh_lightrag.server.core.settings import CoreSettings

_TERMINAL = (DocStatus.PROCESSED, DocStatus.FAILED)
TOKENS = "llm_tokens"


# --- logging and tokens -----------------------------------------------------------------------


class _Places(logging.Handler):
    """Tells where LightRAG reported an error, not what: its messages hold names and texts."""

    def emit(self, record: logging.LogRecord) -> None:
        get_logger().warning("lightrag_error", place=f"{record.module}:{record.lineno}")


def route_logging() -> None:
    """Take LightRAG's own handlers away; what is left are the places of errors."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    # Imported first here: it gives the root logger a handler that shows everybody's records.
    import nano_vectordb  # noqa: F401, PLC0415 - as above

    root.level, root.handlers[:] = before
    for name in ("lightrag", "nano-vectordb"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [_Places()]
        logger.propagate = False
        logger.setLevel(logging.ERROR)


@cache
def tokenizer() -> Any:
    """Return the tokenizer that a LightRAG server uses, without its download."""
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="dsh-lightrag-") as folder:
        fill_tiktoken_cache(Path(folder))
        os.environ["TIKTOKEN_CACHE_DIR"] = folder
        try:
            return TiktokenTokenizer("gpt-4o-mini")
        finally:
            del os.environ["TIKTOKEN_CACHE_DIR"]
            if before is not None:
                os.environ["TIKTOKEN_CACHE_DIR"] = before


# --- the class --------------------------------------------------------------------------------


class Core(LightRAG):  # type: ignore[misc] # LightRAG has no types
    """LightRAG without its own queues, and with each document's tokens counted."""

    def _build_global_config(self) -> dict[str, Any]:
        """Let every role call the model through our gate: each queue of a role polls for ever."""
        config: dict[str, Any] = super()._build_global_config()
        config["role_llm_funcs"] = dict.fromkeys(config["role_llm_funcs"], self.llm_model_func)
        return config

    async def process_single_document(self, **arguments: Any) -> None:
        """Process a document as one piece of work."""
        token = WORK.set(Work(workspace=self.workspace))
        try:
            await super().process_single_document(**arguments)
        finally:
            WORK.reset(token)

    async def _upsert_doc_status_transition(
        self, doc_id: str, status: DocStatus, *arguments: Any, **options: Any
    ) -> None:
        """Write the tokens with the very status that ends the processing."""
        work = WORK.get()
        if work is not None and status in _TERMINAL:
            extra = options.get("metadata_extra") or {}
            options["metadata_extra"] = {**extra, TOKENS: work.tokens}
        await super()._upsert_doc_status_transition(doc_id, status, *arguments, **options)


def new_core(workspace: str, settings: CoreSettings, models: Models, vectors: Vectors) -> Core:
    """Make the object of one workspace; its storages are not open yet."""
    on_files = not settings.database_url
    core = Core(
        working_dir=str(settings.folder),
        workspace=workspace,
        kv_storage="JsonKVStorage" if on_files else "PGKVStorage",
        vector_storage="NanoVectorDBStorage" if on_files else "PGVectorStorage",
        graph_storage="NetworkXStorage" if on_files else settings.graph.value,
        doc_status_storage="JsonDocStatusStorage" if on_files else "PGDocStatusStorage",
        tokenizer=tokenizer(),
        llm_model_func=models.chat_function(),
        llm_model_name=settings.chat.model,
        embedding_func=EmbeddingFunc(
            embedding_dim=vectors.dimensions,
            max_token_size=8192,
            model_name=vectors.model,
            func=models.embedding_function(),
            supports_asymmetric=True,
        ),
        # A cached answer outlives the documents that it was made from, for its key knows
        # nothing of them. What a model extracted from a chunk stays true, and is needed when a
        # deletion rebuilds the entities that other documents share.
        enable_llm_cache=False,
        enable_llm_cache_for_entity_extract=True,
        max_parallel_insert=settings.documents_at_once,
        cosine_better_than_threshold=settings.cosine_threshold,
        addon_params={"language": settings.summary_language},
        user_prompt_prefix="",
    )
    # The storages hold this very object; its function is LightRAG's queue around ours.
    core.embedding_func.func = models.embedding_function()
    return core


# --- globals ----------------------------------------------------------------------------------


def start_afresh() -> None:
    """Forget what an earlier keeper of this process left in LightRAG's globals."""
    shared.finalize_share_data()
    shared.initialize_share_data()


async def forget(workspace: str) -> None:
    """Free what LightRAG keeps of a closed workspace: it would hold all its files in memory."""
    await shared.finalize_pipeline_ingress(workspace)
    shared.finalize_scan_job_store(workspace)
    prefix = f"{workspace}:"
    for table in (
        shared._shared_dicts,  # noqa: SLF001 - LightRAG has no function that forgets
        shared._init_flags,  # noqa: SLF001 - as above
        shared._update_flags,  # noqa: SLF001 - as above
        shared._namespace_data_cache,  # noqa: SLF001 - as above
    ):
        for name in [name for name in table or () if name.startswith(prefix)]:
            del table[name]


async def connect() -> Any:
    """Open the process's pool, which makes LightRAG's tables; return what `disconnect` takes.

    Held open by the keeper: else the pool would close with the last idle workspace.
    """
    from lightrag.kg.postgres_impl import ClientManager  # noqa: PLC0415 - needs asyncpg

    if ClientManager._instances["db"] is None:  # noqa: SLF001 - as below
        # A lock that once had to wait belongs to the event loop of then.
        ClientManager._lock = asyncio.Lock()  # noqa: SLF001 - LightRAG makes it once per process
    logger = logging.getLogger("lightrag")
    logger.disabled = True  # in a new database it looks for its tables by failing to read them
    try:
        return await ClientManager.get_client(vector_storage="PGVectorStorage")
    finally:
        logger.disabled = False


async def disconnect(client: Any) -> None:
    """Close the pool, unless a workspace still holds it."""
    from lightrag.kg.postgres_impl import ClientManager  # noqa: PLC0415 - needs asyncpg

    await ClientManager.release_client(client)
