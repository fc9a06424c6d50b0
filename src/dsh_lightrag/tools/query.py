"""`dsh_lightrag_query`: a question in, an answer with its sources out."""

from __future__ import annotations

from pydantic import Field

from dsh_lightrag.bounds import Whole
from dsh_lightrag.dispatch import Access, Args, Deps, Result, Tool
from dsh_lightrag.question import TOP_K, accepted_question
from dsh_lightrag.text import Allowance, TextForm, cut
from dsh_lightrag.wire import NO_CONTEXT_MARK, AnswerKind, Mode, QueryRequest, Reference


class QueryArgs(Args):
    """What may be asked."""

    question: str = Field(
        description="The question as one full sentence, in the language of the documents, with "
        "names and terms as they are written there; 3 to 65536 characters, each Chinese, "
        "Japanese or Korean one counts as 2 towards the 3."
    )
    mode: Mode | None = Field(
        None,
        description="How to retrieve. mix: graph and passages, the best first choice. naive: "
        "passages only, the fastest, for wording. local: facts about named things. global: "
        "themes and relations across documents. hybrid: local and global. bypass: nothing is "
        "retrieved, the server's model answers from memory, without sources. Absent: this "
        "deployment's mode, normally mix.",
    )
    top_k: Whole | None = Field(
        None,
        description="How many entities and relations of the graph to retrieve, 1 to 200; values "
        "outside are clamped. Higher finds more and takes longer; modes naive and bypass "
        "ignore it. Absent: this deployment's number, normally 20.",
    )
    with_content: bool = Field(
        default=False,
        description="true: each reference also carries its retrieved passages (content), all of "
        "them together up to this deployment's cap, normally 48000 bytes, to quote or check. "
        "false: sources by name only.",
    )


class SourceResult(Result):
    """A file that the answer draws on."""

    reference_id: str | None = Field(description="The number that the answer cites.")
    file_path: str | None = Field(description="The source as it was filed.")
    content: list[str] = Field(description="Its retrieved chunks; empty unless withContent.")


class QueryResult(Result):
    """The answer and what it rests on."""

    answer: str = Field(description="The answer, cut to the deployment's cap.")
    truncated: bool = Field(description="Whether any text, of chunks too, was dropped.")
    reference_count: int = Field(description="How many sources the server named.")
    llm_generated: bool = Field(description="False: no model wrote this; the text form says why.")
    references: list[SourceResult] = Field(description="The sources, in the server's order.")


async def run(args: QueryArgs, deps: Deps) -> QueryResult:
    """Ask, then cut the answer and the chunks to their caps."""
    settings = deps.settings.query
    mode = args.mode or settings.mode
    reply = await deps.client.query(
        QueryRequest(
            query=accepted_question(args.question, mode, "question"),
            mode=mode,
            top_k=settings.top_k if args.top_k is None else TOP_K.clamp(args.top_k),
            include_chunk_content=args.with_content,
        )
    )
    answer = cut(reply.response, settings.max_answer_bytes)
    allowance = Allowance(settings.max_content_bytes)
    sources = [
        _source(reference, allowance if args.with_content else None)
        for reference in reply.references or []
    ]
    return QueryResult(
        answer=answer.text,
        truncated=answer.truncated or allowance.truncated,
        reference_count=len(sources),
        llm_generated=reply.kind is AnswerKind.WRITTEN,
        references=sources,
    )


def _source(reference: Reference, allowance: Allowance | None) -> SourceResult:
    chunks = (reference.content or []) if allowance else []
    kept = [piece for chunk in chunks if allowance and (piece := allowance.take(chunk)) is not None]
    return SourceResult(
        reference_id=reference.reference_id, file_path=reference.file_path, content=kept
    )


def show(result: QueryResult) -> TextForm:
    """Write the answer, then its sources; say why when no model wrote it."""
    summary, advice = _verdict(result)
    return TextForm(
        summary=summary,
        data=(result.answer, *(_listed(source) for source in result.references)),
        advice=advice,
        narrower="Ask a narrower question, lower topK, or call without withContent.",
    )


def _verdict(result: QueryResult) -> tuple[str, str]:
    """Tell apart what LightRAG answers alike, because each wants another action."""
    sources = f"{result.reference_count} source(s)"
    if result.llm_generated:
        cut_note = "Something was cut to this deployment's cap." if result.truncated else ""
        return f"Answer of the knowledge base, with {sources}.", cut_note
    if NO_CONTEXT_MARK in result.answer:
        return (
            "The index has nothing on this question.",
            (
                "Call dsh_lightrag_status to see whether anything is ingested; otherwise ask in "
                "other words or with mode naive. Do not take this for an answer."
            ),
        )
    if result.references:
        return f"Passages quoted from {sources}; this server has no model to write answers.", ""
    return (
        (
            "No answer: the LightRAG server's model backend failed. This does not say that the "
            "index is empty."
        ),
        (
            "Ask the operator to check the server's model and embedding settings (key, quota, "
            "address) and its log, then call again."
        ),
    )


def _listed(source: SourceResult) -> str:
    head = f"[{source.reference_id or '-'}] {source.file_path or 'unknown source'}"
    return "\n".join([head, *source.content])


TOOL = Tool(
    name="dsh_lightrag_query",
    title="Ask the knowledge base",
    summary=(
        "Ask the knowledge base a question and get one written answer with the sources it "
        "cites. Use it first whenever the ingested documents may hold the answer. Use "
        "dsh_lightrag_query_data (where offered) for raw passages to quote or judge yourself, "
        "dsh_lightrag_documents to see which documents exist, dsh_lightrag_status when "
        "answers come back empty or calls fail. Read-only. It waits for retrieval and up to "
        "two language-model calls on the server (mode naive: one), seconds to minutes; the "
        "server may repeat its earlier answer to the same question although documents changed "
        "since. Returns answer, references (referenceId, filePath, content), referenceCount, "
        "truncated, and llmGenerated: false means that no model answered, and the text says "
        "why."
    ),
    access=Access.READ,
    args=QueryArgs,
    result=QueryResult,
    run=run,
    show=show,
)
