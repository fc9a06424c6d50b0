"""`dsh_lightrag_delete`: a document, and what only it contributed, out of the base."""

from __future__ import annotations

from pydantic import Field

from dsh_lightrag.dispatch import Access, Args, Deps, Result, Switch, Tool
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.text import TextForm
from dsh_lightrag.wire import DeleteRequest


class DeleteArgs(Args):
    """Which document."""

    document_id: str = Field(
        description="The id of one document (doc-…), exactly as dsh_lightrag_documents or "
        "dsh_lightrag_insert gave it; not its name, and one id per call."
    )


class DeleteResult(Result):
    """What was started."""

    status: str = Field(description="What the server answered, normally deletion_started.")
    message: str = Field(description="What the server said.")
    doc_id: str | None = Field(description="The id that the server was asked to delete.")


async def run(args: DeleteArgs, deps: Deps) -> DeleteResult:
    """Start the deletion; files and the model's cache are left alone."""
    document_id = args.document_id.strip()
    if not document_id:
        raise LightRagError(Code.INVALID_ARGUMENT, "documentId must not be blank.")
    reply = await deps.client.delete(DeleteRequest(doc_ids=[document_id]))
    return DeleteResult(status=reply.status, message=reply.message, doc_id=reply.doc_id)


def show(result: DeleteResult) -> TextForm:
    """Say that it was started; the server accepts ids that do not exist."""
    return TextForm(
        summary="A deletion was started; it runs in the background and is not done yet.",
        data=(
            f"document id: {result.doc_id or 'unknown'}\nserver: {result.status}: {result.message}"
        ),
        advice=(
            "The server accepts unknown ids too: call dsh_lightrag_documents once pipelineBusy is "
            "false to see that the document is gone."
        ),
    )


TOOL = Tool(
    name="dsh_lightrag_delete",
    title="Delete a document",
    summary=(
        "Delete one document, by id, with the chunks, entities and relations that only it "
        "contributed. Use it to remove a document, or to make room before dsh_lightrag_insert "
        "files a new version under the same name. Destructive, and dsh_lightrag_scan does not "
        "bring it back: inserted text has no file and processed files have moved, so keep the "
        "source first. Asynchronous, for seconds to minutes; refused (busy) while the server "
        "is processing. The server accepts ids that do not exist, so a result proves no "
        "deletion: wait with dsh_lightrag_status until pipelineBusy is false, then look in "
        "dsh_lightrag_documents. Files on the server are not deleted. Returns at once status, "
        "message and docId."
    ),
    access=Access.WRITE,
    args=DeleteArgs,
    result=DeleteResult,
    run=run,
    show=show,
    switch=Switch.WRITES,
    destructive=True,
)
