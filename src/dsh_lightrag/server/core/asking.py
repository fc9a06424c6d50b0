"""A question in LightRAG's words, and its evidence or answer in ours.

LightRAG turns the failure of a model into an answer that says nothing was found. Here every
question is a piece of work that keeps the first failure of a model, so a failure stays one.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lightrag import QueryParam
from lightrag.prompt import PROMPTS

from dsh_lightrag.server.backend import (
    Answer,
    BackendError,
    ChunkFound,
    EntityFound,
    Evidence,
    ReferenceFound,
    RelationFound,
)
from dsh_lightrag.server.core.models import WORK, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dsh_lightrag.server.backend import Ask
    from dsh_lightrag.server.core.inside import Core

_NO_RESULTS = "no_results"


async def evidence(core: Core, ask: Ask) -> Evidence:
    """Retrieve; a failure of a model is raised, never an empty list."""
    with _question() as work:
        try:
            found = await core.aquery_data(ask.query, _parameters(ask, stream=False))
        except Exception as error:  # LightRAG raises whatever its storages and models raise
            raise work.failure or _unreadable() from error
        if work.failure is not None:
            raise work.failure
    return _evidence_of(found)


async def answer(core: Core, ask: Ask, *, stream: bool) -> Answer:
    """Answer; context and answer come from one retrieval."""
    with _question() as work:
        found = await core.aquery_llm(ask.query, _parameters(ask, stream=stream))
        if work.failure is not None:
            raise work.failure
    if found["status"] != "success":
        if (found.get("metadata") or {}).get("failure_reason") != _NO_RESULTS:
            raise _unreadable()
        return Answer(text=PROMPTS["fail_response"], llm_generated=False)
    reply = found["llm_response"]
    return Answer(
        text=reply["response_iterator"] if reply["is_streaming"] else reply["content"] or "",
        llm_generated=bool(reply["llm_generated"]),
        references=_evidence_of(found).references,
    )


@contextmanager
def _question() -> Iterator[Work]:
    """Make what runs inside one urgent piece of work."""
    work = Work(urgent=True)
    token = WORK.set(work)
    try:
        yield work
    finally:
        WORK.reset(token)


def _unreadable() -> BackendError:
    return BackendError("The index could not be read.", "Look at the server's log.")


def _parameters(ask: Ask, *, stream: bool) -> QueryParam:
    return QueryParam(
        mode=ask.mode,
        only_need_context=ask.only_need_context,
        only_need_prompt=ask.only_need_prompt,
        response_type=ask.response_type,
        stream=stream,
        top_k=ask.top_k,
        chunk_top_k=ask.chunk_top_k,
        max_entity_tokens=ask.max_entity_tokens,
        max_relation_tokens=ask.max_relation_tokens,
        max_total_tokens=ask.max_total_tokens,
        hl_keywords=list(ask.hl_keywords),
        ll_keywords=list(ask.ll_keywords),
        conversation_history=[{"role": turn.role, "content": turn.content} for turn in ask.history],
        user_prompt=ask.user_prompt or None,
        enable_rerank=False,  # there is no such model here, and LightRAG would complain each time
        include_references=True,
    )


def _evidence_of(found: Mapping[str, Any]) -> Evidence:
    data = found.get("data") or {}
    metadata = found.get("metadata") or {}
    keywords = metadata.get("keywords") or {}
    chunks = tuple(
        ChunkFound(
            reference_id=str(row.get("reference_id") or ""),
            content=str(row.get("content") or ""),
            file_path=str(row.get("file_path") or ""),
            chunk_id=str(row.get("chunk_id") or ""),
        )
        for row in data.get("chunks") or ()
    )
    contents: defaultdict[str, list[str]] = defaultdict(list)
    for chunk in chunks:
        contents[chunk.reference_id].append(chunk.content)
    return Evidence(
        entities=tuple(_entity(row) for row in data.get("entities") or ()),
        relations=tuple(_relation(row) for row in data.get("relationships") or ()),
        chunks=chunks,
        references=tuple(
            ReferenceFound(
                reference_id=str(row["reference_id"]),
                file_path=str(row.get("file_path") or ""),
                content=tuple(contents[str(row["reference_id"])]),
            )
            for row in data.get("references") or ()
        ),
        high_level=tuple(keywords.get("high_level") or ()),
        low_level=tuple(keywords.get("low_level") or ()),
        processing_info=dict(metadata.get("processing_info") or {}),
    )


def _entity(row: Mapping[str, Any]) -> EntityFound:
    return EntityFound(
        entity_name=str(row.get("entity_name") or ""),
        entity_type=str(row.get("entity_type") or ""),
        description=str(row.get("description") or ""),
        source_id=str(row.get("source_id") or ""),
        file_path=str(row.get("file_path") or ""),
        created_at=str(row.get("created_at") or ""),
    )


def _relation(row: Mapping[str, Any]) -> RelationFound:
    return RelationFound(
        src_id=str(row.get("src_id") or ""),
        tgt_id=str(row.get("tgt_id") or ""),
        description=str(row.get("description") or ""),
        keywords=str(row.get("keywords") or ""),
        weight=float(row.get("weight") or 0.0),
        source_id=str(row.get("source_id") or ""),
        file_path=str(row.get("file_path") or ""),
        created_at=str(row.get("created_at") or ""),
    )
