"""`dsh_lightrag_insert`: a text into the base, filed under a source."""

from __future__ import annotations

import hashlib
import re

from pydantic import Field

from dsh_lightrag.dispatch import Access, Args, Deps, Result, Switch, Tool
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.text import TextForm, clean_line, utf8_size
from dsh_lightrag.wire import InsertRequest

PLACEHOLDERS = {"", ".", "no-file-path", "unknown_source"}
# LightRAG reads `name.[engine-options].ext` as an instruction for its parser and files the
# document without it; an instruction that it does not know fails the document later.
_PARSER_HINT = re.compile(r"\.\[([^\]]*)\](\.[^.]+)$")
_PARSER_ENGINES = {"", "native", "legacy", "mineru", "docling"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class InsertArgs(Args):
    """What to file, and under which name."""

    text: str = Field(
        description="The whole text to file, not blank, at most this deployment's cap, normally "
        "200000 bytes of UTF-8; split a longer one over several sources. It is filed as it "
        "is: nothing is fetched from a URL or a path."
    )
    source: str | None = Field(
        None,
        description="The name to file it under: a file name, path or URL, of which the last "
        "segment counts; it must be new in the base. [Brackets] before the extension are read as "
        "a parser instruction: a known one is left out of the name, others are refused. Absent: "
        "a name made from a hash of the text, so that the same text has the same name.",
    )


class InsertResult(Result):
    """What was started."""

    track_id: str | None = Field(description="Names this insert in dsh_lightrag_documents.")
    status: str = Field(description="What the server answered, normally success.")
    message: str = Field(description="What the server said.")
    source: str = Field(description="The name that the document is filed under.")
    document_id: str = Field(description="The id that the document will have.")


async def run(args: InsertArgs, deps: Deps) -> InsertResult:
    """Check size and name here, so that a refusal costs no request."""
    most = deps.settings.writes.max_text_bytes
    if not args.text.strip():
        raise LightRagError(Code.INVALID_ARGUMENT, "text must not be blank.")
    if (size := utf8_size(args.text)) > most:
        raise LightRagError(
            Code.TOO_LARGE,
            f"text has {size} bytes; this deployment takes {most}.",
            hint="Split the text and insert each part under a source of its own.",
        )
    source = filed_name(_default_source(args.text) if args.source is None else args.source)
    reply = await deps.client.insert(InsertRequest(text=args.text, file_source=source))
    return InsertResult(
        track_id=reply.track_id,
        status=reply.status,
        message=reply.message,
        source=deps.redact(clean_line(source)),
        document_id=document_id(source),
    )


def _default_source(text: str) -> str:
    return f"text-{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"


def filed_name(source: str) -> str:
    """Return the name that LightRAG 1.5.7 files a source under: its last path segment.

    Raises:
        LightRagError: `invalid-argument` for a source that it would refuse or fail later.
    """
    if _CONTROL.search(source):
        raise LightRagError(Code.INVALID_ARGUMENT, "source must not hold control characters.")
    name = source.strip().rstrip("/").rpartition("/")[2]
    while hint := _PARSER_HINT.search(name):  # it strips one per step, and files in two steps
        engine = re.split(r"[-(]", hint[1].strip(), maxsplit=1)[0].lower()
        if engine not in _PARSER_ENGINES or not hint[1].strip():
            raise LightRagError(
                Code.INVALID_ARGUMENT,
                "source ends in [brackets] before its extension, which LightRAG reads as a "
                "parser instruction.",
                hint="Leave the brackets out of the name.",
            )
        name = name[: hint.start()] + hint[2]
    name = name.strip()
    if name in PLACEHOLDERS:
        raise LightRagError(
            Code.INVALID_ARGUMENT,
            "source must end in a name.",
            hint="Give a file name, or leave source out.",
        )
    return name


def document_id(name: str) -> str:
    """Return the id that LightRAG derives from a filed name (not from the text)."""
    return f"doc-{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"


def show(result: InsertResult) -> TextForm:
    """Say that it was accepted, not that it is done."""
    return TextForm(
        summary="The text was accepted and is being processed; it is not searchable yet.",
        data=(
            f"source: {result.source}\ndocument id: {result.document_id}\n"
            f"track id: {result.track_id or 'none'}\nserver: {result.status}: {result.message}"
        ),
        advice=(
            "Call dsh_lightrag_documents until the document's row is processed or failed; of two "
            "inserts of one name at the same time, one fails."
        ),
    )


TOOL = Tool(
    name="dsh_lightrag_insert",
    title="Insert a text",
    summary=(
        "Add one text to the knowledge base as a new document under a source name. Use it for "
        "knowledge that later questions should find; use dsh_lightrag_scan for files in the "
        "server's own input folder. It never updates: a name that exists is refused "
        "(conflict), so delete that document with dsh_lightrag_delete and wait until it is "
        "gone; text that exists under another name ends as failed. It writes, asynchronously: "
        "the server splits, embeds and extracts in the background, with language-model calls "
        "for every passage, for seconds to minutes. Returns at once status, message, trackId, "
        "and source and documentId as they will be filed: accepted, not searchable yet. "
        "Follow it with dsh_lightrag_documents until its state is processed or failed."
    ),
    access=Access.WRITE,
    args=InsertArgs,
    result=InsertResult,
    run=run,
    show=show,
    switch=Switch.WRITES,
    idempotent=False,
)
