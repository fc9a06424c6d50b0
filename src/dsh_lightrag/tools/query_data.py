"""`dsh_lightrag_query_data`: what was retrieved, raw, for callers that compose their own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from dsh_lightrag import wire
from dsh_lightrag.dispatch import Access, Args, Deps, Result, Switch, Tool
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.text import Allowance, TextForm
from dsh_lightrag.tools.question import TOP_K, accepted_question

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOTAL_CHARS = 131_072
_Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
_KeywordList = Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)]


class Turn(Args):
    """One earlier turn of the conversation."""

    role: str = Field(max_length=64, description="user or assistant.")
    content: str = Field(max_length=32_768, description="What was said; at most 32768 characters.")


class QueryDataArgs(Args):
    """LightRAG's own vocabulary of a retrieval, under its own names."""

    model_config = ConfigDict(alias_generator=None)

    query: str = Field(
        description="What to retrieve for, in the language of the documents; at least 3 "
        "characters (Chinese, Japanese and Korean ones count as 2)."
    )
    mode: wire.Mode | None = Field(
        None,
        description="How to retrieve: mix = graph and vectors (the usual default), naive = vectors "
        "only (needs no language model), local = around entities, global = across relations, "
        "hybrid = local and global, bypass = nothing is retrieved. Absent: this deployment's.",
    )
    top_k: int | None = Field(
        None, description="Entities or relations to retrieve, 1 to 200; clamped."
    )
    chunk_top_k: int | None = Field(None, description="Chunks to retrieve, 1 to 200; clamped.")
    hl_keywords: _KeywordList | None = Field(
        None,
        description="Themes to search relations with, at most 64 of 512 characters; with "
        "ll_keywords they spare the server's language model a call.",
    )
    ll_keywords: _KeywordList | None = Field(
        None, description="Names to search entities with, at most 64 of 512 characters."
    )
    user_prompt: str | None = Field(
        None,
        max_length=65_536,
        description="Passed on to the server; it steers answers, not what is retrieved.",
    )
    enable_rerank: bool | None = Field(
        None, description="Rerank chunks where the server has a reranker."
    )
    response_type: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        None, description="Passed on to the server; the form of answers, not of evidence."
    )
    max_total_tokens: _Tokens | None = Field(
        None, description="Token budget of all evidence, 1 to 1000000."
    )
    max_entity_tokens: _Tokens | None = Field(
        None, description="Token budget of entities, 1 to 1000000."
    )
    max_relation_tokens: _Tokens | None = Field(
        None, description="Token budget of relationships, 1 to 1000000."
    )
    conversation_history: Annotated[list[Turn], Field(max_length=128)] | None = Field(
        None, description="Earlier turns, oldest first, at most 128."
    )


class _Evidence(BaseModel):
    """A piece of evidence, under LightRAG's own field names."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


E = TypeVar("E", bound=_Evidence)


class EntityResult(_Evidence):
    """A node of the graph."""

    entity_name: str
    entity_type: str | None
    description: str | None
    file_path: str | None
    source_id: str | None


class RelationshipResult(_Evidence):
    """An edge of the graph."""

    src_id: str
    tgt_id: str
    description: str | None
    keywords: str | None
    weight: float | None
    file_path: str | None
    source_id: str | None


class ChunkResult(_Evidence):
    """A passage; the chunk id names the document."""

    content: str
    chunk_id: str | None
    reference_id: str | None
    file_path: str | None


class ReferenceResult(_Evidence):
    """A file that evidence is from."""

    reference_id: str | None
    file_path: str | None


class KeywordsResult(_Evidence):
    """What the server searched with."""

    high_level: list[str]
    low_level: list[str]


class QueryDataResult(Result):
    """Evidence in the server's order of rank, under the deployment's caps."""

    entities: list[EntityResult] = Field(description="Nodes of the graph.")
    relationships: list[RelationshipResult] = Field(description="Edges of the graph.")
    chunks: list[ChunkResult] = Field(description="Passages.")
    references: list[ReferenceResult] = Field(description="The files they are from.")
    keywords: KeywordsResult = Field(description="What the server searched with.")
    mode: wire.Mode = Field(description="The mode that was used.")
    truncated: bool = Field(description="Whether any text was dropped to keep the caps.")
    entity_count: int = Field(description="Entities before the cut.")
    relationship_count: int = Field(description="Relationships before the cut.")
    chunk_count: int = Field(description="Chunks before the cut.")
    reference_count: int = Field(description="References, which are never cut.")


async def run(args: QueryDataArgs, deps: Deps) -> QueryDataResult:
    """Retrieve, then cut chunks and descriptions to their caps."""
    mode = args.mode or deps.settings.query.mode
    request = _request(args, mode, deps.settings.query.top_k)
    reply = await deps.client.query_data(request)
    found = reply.data
    passages = Allowance(deps.settings.query.max_content_bytes)
    descriptions = Allowance(deps.settings.query.max_answer_bytes)
    return QueryDataResult(
        entities=_kept(EntityResult, found.entities, "description", descriptions),
        relationships=_kept(RelationshipResult, found.relationships, "description", descriptions),
        chunks=_kept(ChunkResult, found.chunks, "content", passages),
        references=[ReferenceResult(**_fields(ReferenceResult, item)) for item in found.references],
        keywords=KeywordsResult(**_fields(KeywordsResult, reply.metadata.keywords)),
        mode=used if (used := reply.metadata.query_mode) in get_args(wire.Mode) else mode,
        truncated=passages.truncated or descriptions.truncated,
        entity_count=len(found.entities),
        relationship_count=len(found.relationships),
        chunk_count=len(found.chunks),
        reference_count=len(found.references),
    )


def _request(args: QueryDataArgs, mode: wire.Mode, top_k: int) -> wire.QueryDataRequest:
    history = args.conversation_history
    request = wire.QueryDataRequest(
        **args.model_dump(
            exclude={"query", "mode", "top_k", "chunk_top_k", "conversation_history"}
        ),
        query=accepted_question(args.query, mode, "query"),
        mode=mode,
        top_k=top_k if args.top_k is None else TOP_K.clamp(args.top_k),
        chunk_top_k=None if args.chunk_top_k is None else TOP_K.clamp(args.chunk_top_k),
        conversation_history=[
            wire.Message(role=turn.role, content=turn.content) for turn in history
        ]
        if history is not None
        else None,
    )
    total = len(request.query) + len(request.user_prompt or "")
    total += sum(len(turn.content) for turn in history or [])
    if total > MAX_TOTAL_CHARS:
        raise LightRagError(
            Code.INVALID_ARGUMENT,
            f"query, user_prompt and conversation_history together have {total} characters; "
            f"LightRAG takes {MAX_TOTAL_CHARS}.",
        )
    return request


def _fields(model: type[BaseModel], item: wire.Reply) -> dict[str, object]:
    return {name: getattr(item, name) for name in model.model_fields}


def _kept(
    model: type[E], items: Sequence[wire.Reply], text_field: str, allowance: Allowance
) -> list[E]:
    """Take items in rank order until the allowance is used up; the last may be cut."""
    kept: list[E] = []
    for item in items:
        fields = _fields(model, item)
        text = fields[text_field]
        if isinstance(text, str):
            piece = allowance.take(text)
            if piece is None:
                break
            fields[text_field] = piece
        kept.append(model(**fields))
    return kept


def show(result: QueryDataResult) -> TextForm:
    """Passages first, as the most useful evidence, then the graph around them."""
    found = result.entity_count + result.relationship_count + result.chunk_count
    if result.mode == "bypass":
        summary = "Mode bypass retrieves nothing: there is no evidence to show."
        advice = "Call again with another mode, mix for instance."
    elif not found:
        summary = "Nothing was found."
        advice = "Ask in other words or with mode naive; dsh_lightrag_status tells what is there."
    else:
        summary = (
            f"Evidence (mode {result.mode}): {result.chunk_count} passage(s), "
            f"{result.entity_count} entities, {result.relationship_count} relationships, "
            f"{result.reference_count} source(s)."
        )
        advice = "Some text was cut to this deployment's caps." if result.truncated else ""
    return TextForm(
        summary=summary,
        data="\n\n".join(_paragraphs(result)) if found else "",
        advice=advice,
        narrower="Lower top_k or chunk_top_k, or set max_total_tokens.",
    )


def _paragraphs(result: QueryDataResult) -> list[str]:
    return [
        *(
            f"[{chunk.reference_id or '-'}] {chunk.file_path or 'unknown source'} "
            f"{chunk.chunk_id or ''}\n{chunk.content}"
            for chunk in result.chunks
        ),
        *(
            f"entity {entity.entity_name} ({entity.entity_type or 'no type'}): "
            f"{entity.description or ''}"
            for entity in result.entities
        ),
        *(
            f"relationship {edge.src_id} - {edge.tgt_id}: {edge.description or ''}"
            for edge in result.relationships
        ),
    ]


TOOL = Tool(
    name="dsh_lightrag_query_data",
    title="Retrieve raw evidence",
    summary=(
        "Retrieve raw evidence for a question: passages, entities, relationships and their "
        "sources, without a written answer. Use it to compose or verify an answer yourself; use "
        "dsh_lightrag_query for a finished answer. A call costs retrieval and, unless keywords "
        "are given or mode is naive, one call of the server's language model. It has no side "
        "effects. Mode bypass retrieves nothing."
    ),
    access=Access.READ,
    args=QueryDataArgs,
    result=QueryDataResult,
    run=run,
    show=show,
    switch=Switch.EVIDENCE,
)
