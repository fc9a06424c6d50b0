"""The routes of documents that bring no file: texts, lists, progress, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from dsh_lightrag.server import replies
from dsh_lightrag.server.backend import BUSY, BusyError, NameTakenError, NewDocument, PageWanted
from dsh_lightrag.server.refusal import RefusalError
from dsh_lightrag.server.requests import (  # noqa: TC001 - FastAPI reads them at run time
    DeleteRequest,
    DocumentsRequest,
    InsertTextRequest,
    InsertTextsRequest,
)
from dsh_lightrag.server.services import NEEDS_KEY, Leased, ServicesOf, WorkspaceOf
from dsh_lightrag.server.tracks import new_track_id

if TYPE_CHECKING:
    from dsh_lightrag.server.backend import Backend

router = APIRouter(prefix="/documents", tags=["documents"], dependencies=[NEEDS_KEY])
_RETRYING = (
    "Reprocessing of failed documents has been initiated in background (one retry attempt per "
    "failed document). If the pipeline is busy the request executes at its next quiescence point. "
    "Documents retain their original track_id."
)


def started(what: str, track_id: str) -> dict[str, str]:
    """Say that something was taken in and is being worked on."""
    message = f"{what}. Processing will continue in background."
    return {"status": "success", "message": message, "track_id": track_id}


@router.post("/text")
async def insert_text(asked: InsertTextRequest, backend: Leased) -> dict[str, str]:
    """File a text; its name is looked at and taken in one step."""
    if not asked.file_source:
        raise RefusalError(400, "A valid file_source is required for text insertion")
    track_id = new_track_id("insert")
    await _insert(backend, [NewDocument(asked.text, asked.file_source)], track_id)
    return started("Text successfully received", track_id)


@router.post("/texts")
async def insert_texts(asked: InsertTextsRequest, backend: Leased) -> dict[str, str]:
    """File texts, all or none."""
    sources = asked.file_sources or []
    if len(sources) != len(asked.texts) or not all(sources):
        raise RefusalError(400, "A valid file_source is required for each text")
    if len(set(sources)) != len(sources):
        raise RefusalError(400, "file_sources must be unique by filename")
    track_id = new_track_id("insert")
    documents = [NewDocument(*pair) for pair in zip(asked.texts, sources, strict=True)]
    await _insert(backend, documents, track_id)
    return started("Texts successfully received", track_id)


@router.post("/paginated")
async def paginated(asked: DocumentsRequest, backend: Leased) -> dict[str, Any]:
    """Return a part of the document list."""
    wanted = asked.wanted()
    return replies.page(await backend.page(wanted), wanted)


@router.get("/status_counts")
async def status_counts(backend: Leased) -> dict[str, Any]:
    """Return how many documents are in each status."""
    found = await backend.page(PageWanted(page_size=1))
    return {"status_counts": replies.counts(found.counts)}


@router.get("/pipeline_status")
async def pipeline_status(
    backend: Leased, services: ServicesOf, workspace: WorkspaceOf
) -> dict[str, Any]:
    """Return what the workspace is busy with."""
    scanning = services.scans.running(workspace)
    state = services.filing.with_pending(workspace, await backend.pipeline())
    return replies.pipeline(state, scanning=scanning)


@router.get("/track_status/{track_id}")
async def track_status(track_id: str, backend: Leased) -> dict[str, Any]:
    """Return the documents of one insertion; an unknown id has none."""
    if not track_id.strip():
        raise RefusalError(400, "Track ID cannot be empty")
    return replies.track(track_id, await backend.tracked(track_id))


@router.delete("/delete_document")
async def delete_document(
    asked: DeleteRequest, backend: Leased, services: ServicesOf, workspace: WorkspaceOf
) -> dict[str, str]:
    """Begin to delete documents; ids that are not here are an error, and nothing is deleted."""
    names = await _names(backend, asked.doc_ids) if asked.delete_file else []
    try:
        await backend.delete(asked.doc_ids)
    except BusyError:
        return {"status": "busy", "message": BUSY, "doc_id": ", ".join(asked.doc_ids)}
    for name in names:
        await services.inputs.discard(workspace, name)
    return {
        "status": "deletion_started",
        "message": (
            f"Document deletion for {len(asked.doc_ids)} documents has been initiated. "
            "Processing will continue in background."
        ),
        "doc_id": ", ".join(asked.doc_ids),
    }


@router.delete("")
async def clear_documents(
    backend: Leased, services: ServicesOf, workspace: WorkspaceOf
) -> dict[str, str]:
    """Delete every document and every file of the input folder."""
    try:
        await backend.clear()
    except BusyError:
        return {"status": "busy", "message": BUSY}
    files = await services.inputs.empty(workspace)
    message = f"All documents cleared successfully. Deleted {files} files."
    return {"status": "success", "message": message}


@router.post("/clear_cache")
async def clear_cache(backend: Leased) -> dict[str, str]:
    """Forget cached model answers."""
    await backend.clear_cache()
    return {"status": "success", "message": "Successfully cleared all cache"}


@router.post("/reprocess_failed")
async def reprocess_failed(backend: Leased) -> dict[str, str]:
    """Let failed documents be processed again."""
    await backend.retry_failed("")
    return {"status": "reprocessing_started", "message": _RETRYING, "track_id": ""}


@router.post("/cancel_pipeline")
async def cancel_pipeline(backend: Leased) -> dict[str, str]:
    """Say that nothing runs; what runs is finished, since it cannot be half undone."""
    state = await backend.pipeline()
    if state.busy:
        raise RefusalError(409, "What has begun is finished here. Delete the documents instead.")
    return {
        "status": "not_busy",
        "message": "Pipeline is not currently running. No cancellation needed.",
    }


async def _insert(backend: Backend, documents: list[NewDocument], track_id: str) -> None:
    """File documents; a name that is taken is refused in LightRAG's words."""
    try:
        await backend.insert(documents, track_id)
    except NameTakenError:
        for document in documents:
            if row := await backend.named(document.file_source):
                raise RefusalError(
                    409,
                    f"Document storage already contains '{document.file_source}' (Status: "
                    f"{row.status}). Delete the existing record before re-inserting.",
                ) from None
        raise  # not a name but a text that is stored already


async def _names(backend: Backend, ids: list[str]) -> list[str]:
    """Return the names that documents are filed under."""
    wanted, names, page = set(ids), [], 1
    # In an order that no change of a document's state moves.
    while wanted and (rows := (await backend.page(PageWanted(page, 200, sort_field="id"))).rows):
        names += [row.file_path for row in rows if row.id in wanted]
        wanted -= {row.id for row in rows}
        page += 1
    return names
