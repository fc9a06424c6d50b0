"""`dsh_lightrag_query_data`: what was retrieved, raw, for callers that compose their own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from dsh_lightrag import wire
from dsh_lightrag.bounds import Whole
from dsh_lightrag.dispatch import Access, Args, Deps, Result, Switch, Tool
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.question import TOP_K, accepted_question
from dsh_lightrag.text import Allowance, TextForm

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOTAL_CHARS = 131_072
_Tokens = Annotated[Whole, Field(ge=1, le=1_000_000)]
_KeywordList = Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)]


class Turn(Args):
    """One earlier turn of the conversation."""

    role: str = Field(max_length=64, description="Who spoke: user or assistant.")
    content: str = Field(max_length=32_768, description="What was said; at most 32768 characters.")


class QueryDataArgs(Args):
    """LightRAG's own vocabulary of a retrieval, under its own names."""

    model_config = ConfigDict(alias_generator=None)

    query: str = Field(
        description="What to find evidence for, as a full question, in the language of the "
        "documents, with names as they are written there; 3 to 65536 characters, each "
        "Chinese, Japanese or Korean one counts as 2 towards the 3."
    )
    mode: wire.Mode | None = Field(
        None,
        description="How to retrieve. mix: graph and passages, the best first choice. naive: "
        "passages only, without a language model. local: around named things. global: across "
        "relations. hybrid: local and global. bypass: nothing is retrieved. Absent: this "
        "deployment's mode, normally mix.",
    )
    top_k: Whole | None = Field(
        None,
        description="Entities (local), relations (global) or both to retrieve from the graph, 1 "
        "to 200; values outside are clamped; mode naive ignores it. Absent: this deployment's "
        "number, normally 20.",
    )
    chunk_top_k: Whole | None = Field(
        None,
        description="Passages to keep after vector search and reranking, 1 to 200; values outside "
        "are clamped. Absent: the server's number, normally 20.",
    )
    hl_keywords: _KeywordList | None = Field(
        None,
        description="Themes to search relations with, at most 64 of 512 characters each. Given "
        "here or in ll_keywords, the server makes none itself, which spares its language- "
        "model call; mode naive uses none. Absent: the server's model makes them.",
    )
    ll_keywords: _KeywordList | None = Field(
        None,
        description="Names of things to search entities with, at most 64 of 512 characters each; "
        "otherwise as hl_keywords.",
    )
    user_prompt: str | None = Field(
        None,
        max_length=65_536,
        description="An instruction for a written answer, at most 65536 characters. Passed on, "
        "but it does not change what is retrieved.",
    )
    enable_rerank: bool | None = Field(
        None,
        description="false: keep passages in vector order. true: rerank them where the server has "
        "a reranker; without one it changes nothing. Absent: as the server is set.",
    )
    response_type: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        None,
        description="The form of a written answer, such as Bullet Points, 1 to 256 characters. "
        "Passed on, but it does not change what is retrieved.",
    )
    max_total_tokens: _Tokens | None = Field(
        None,
        description="Tokens that all evidence together may have, 1 to 1000000; passages get what "
        "entities and relationships leave. Absent: the server's number, normally 30000.",
    )
    max_entity_tokens: _Tokens | None = Field(
        None,
        description="Tokens that entities may have, 1 to 1000000, inside max_total_tokens. "
        "Absent: the server's number, normally 6000.",
    )
    max_relation_tokens: _Tokens | None = Field(
        None,
        description="Tokens that relationships may have, 1 to 1000000, inside max_total_tokens. "
        "Absent: the server's number, normally 8000.",
    )
    conversation_history: Annotated[list[Turn], Field(max_length=128)] | None = Field(
        None,
        description="Earlier turns, oldest first, at most 128; with query and user_prompt at most "
        "131072 characters. Passed on, but retrieval looks at query alone: say there what "
        "matters.",
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
        data=tuple(_paragraphs(result)) if found else "",
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
        "Retrieve the raw evidence for a question: passages, entities and relationships with "
        "their sources, and no written answer. Use it to quote, verify or combine sources "
        "yourself, or to check an answer that you doubt; use dsh_lightrag_query for a "
        "finished answer, dsh_lightrag_documents for a list of documents. It has no side "
        "effects. It waits for retrieval and, unless keywords are given or mode is naive, one "
        "language-model call on the server, so seconds to a minute. Mode bypass retrieves "
        "nothing. Returns chunks, entities, relationships and references in order of rank, "
        "the keywords searched with, mode, a count of each before text was cut to this "
        "deployment's caps, and truncated."
    ),
    access=Access.READ,
    args=QueryDataArgs,
    result=QueryDataResult,
    run=run,
    show=show,
    switch=Switch.EVIDENCE,
)
