"""The routes that bring files: upload, scan and which types are read."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, UploadFile

from dsh_lightrag.convert import SUPPORTED
from dsh_lightrag.server.backend import DELETING
from dsh_lightrag.server.inputs import checked_file_name
from dsh_lightrag.server.refusal import RefusalError
from dsh_lightrag.server.routes_documents import started
from dsh_lightrag.server.services import (
    NEEDS_KEY,
    KnownWorkspace,
    Leased,
    ServicesOf,
    WorkspaceOf,
    known_workspace,
)
from dsh_lightrag.server.tracks import new_track_id

router = APIRouter(prefix="/documents", tags=["documents"], dependencies=[NEEDS_KEY])
_SKIPPED = (
    "Pipeline is currently busy processing documents. Wait for the running job to finish before "
    "triggering another scan."
)


@router.post("/upload")
async def upload(
    file: UploadFile, backend: Leased, services: ServicesOf, workspace: WorkspaceOf
) -> dict[str, str]:
    """Take a file in; it is on disk when this answers, and becomes a document after."""
    name = checked_file_name(file.filename or "")
    services.inputs.check_size(file.size or 0)
    if (await backend.pipeline()).deleting:
        raise RefusalError(409, DELETING)
    if row := await backend.named(name):
        raise RefusalError(
            409,
            f"Document storage already contains '{name}' (Status: {row.status}). Delete the "
            "existing record before re-uploading.",
        )
    track_id = new_track_id("upload")
    waiting = await services.inputs.keep(workspace, track_id, name, file.file)
    services.background.start(services.filing.file_upload(waiting))
    return started(f"File '{name}' uploaded successfully", track_id)


@router.post("/scan")
async def scan(backend: Leased, services: ServicesOf, workspace: WorkspaceOf) -> dict[str, str]:
    """Begin to take in the new files of the input folder, unless something runs."""
    track_id = new_track_id("scan")
    state = await backend.pipeline()
    if services.scans.running(workspace) or state.busy or state.pending_enqueues:
        status, message = "scanning_skipped_pipeline_busy", _SKIPPED
    else:
        job = services.scans.begin(workspace, track_id)
        services.background.start(services.scans.run(workspace, job))
        status = "scanning_started"
        message = "Scanning process has been initiated in the background"
    return {"status": status, "message": message, "track_id": track_id}


@router.get("/scan/status/{track_id}")
async def scan_status(
    track_id: str, services: ServicesOf, workspace: KnownWorkspace
) -> dict[str, Any]:
    """Return how a scan goes; jobs are forgotten when the server ends."""
    job = services.scans.job(workspace, track_id)
    if job is None:
        raise RefusalError(404, f"No scan job found for track_id {track_id}")
    return job.as_json()


@router.get("/supported_file_types", dependencies=[Depends(known_workspace)])
async def supported_file_types() -> dict[str, Any]:
    """Return which types are read."""
    return {"supported_extensions": list(SUPPORTED), "engines": {"legacy": list(SUPPORTED)}}
