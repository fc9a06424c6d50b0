"""Scans: the new files of an input folder become documents in the background, one job at a time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from typing import Any, Literal

    from dsh_lightrag.server.backend import Backend
    from dsh_lightrag.server.filing import Filing
    from dsh_lightrag.server.inputs import Inputs
    from dsh_lightrag.server.pool import Pool

MOST_JOBS = 100
MOST_SAMPLES = 20


@dataclass(slots=True)
class Job:
    """How one scan went so far."""

    track_id: str
    status: Literal["running", "completed", "failed"] = "running"
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    version: int = 1
    message: str = ""

    def tell(self, **counts: int) -> None:
        """Note progress."""
        self.counts.update(counts)
        self.updated_at = time.time()
        self.version += 1

    def as_json(self) -> dict[str, Any]:
        """Return the job as GET /documents/scan/status does."""
        nothing = {"items": [], "truncated": False, "dropped": 0}
        errors = {
            "items": self.errors[:MOST_SAMPLES],
            "truncated": False,
            "dropped": max(0, len(self.errors) - MOST_SAMPLES),
        }
        return {
            "track_id": self.track_id,
            "status": self.status,
            "counts": dict(self.counts),
            "counters_dropped": 0,
            "samples": {"processed": nothing, "warning": nothing, "error": errors},
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "version": self.version,
            "message": self.message,
        }


class Scans:
    """The jobs of every workspace; the last hundred of each are remembered."""

    def __init__(self, pool: Pool, inputs: Inputs, filing: Filing) -> None:
        self._pool = pool
        self._inputs = inputs
        self._filing = filing
        self._jobs: dict[str, dict[str, Job]] = {}

    def job(self, workspace: str, track_id: str) -> Job | None:
        """Return a job, or None."""
        return self._jobs.get(workspace, {}).get(track_id)

    def running(self, workspace: str) -> bool:
        """Tell whether the workspace is being scanned."""
        return any(job.status == "running" for job in self._jobs.get(workspace, {}).values())

    def forget(self, workspace: str) -> None:
        """Forget the jobs of a workspace that is gone."""
        self._jobs.pop(workspace, None)

    def begin(self, workspace: str, track_id: str) -> Job:
        """Note that a scan was asked for; `run` does it."""
        jobs = self._jobs.setdefault(workspace, {})
        if len(jobs) >= MOST_JOBS:
            del jobs[next(iter(jobs))]
        job = jobs[track_id] = Job(track_id)
        return job

    async def run(self, workspace: str, job: Job) -> None:
        """Scan; whatever stops it stands in the job."""
        try:
            async with self._pool.lease(workspace) as backend:
                await self._scan(backend, workspace, job)
        except Exception as error:  # noqa: BLE001 - nobody waits; the job and the log tell it
            get_logger().warning("scan_failed", **fault_of(error))
            job.message = f"The scan stopped at a {type(error).__name__}."
            job.status = "failed"
        finally:
            if job.status == "running":
                job.status = "failed"  # cancelled at the server's end
            job.tell()

    async def _scan(self, backend: Backend, workspace: str, job: Job) -> None:
        files = await self._inputs.files(workspace)
        job.tell(discovered=len(files))
        for path in files:
            if await backend.named(path.name) is not None:
                job.tell(already_processed=1)
            elif reason := await self._filing.file(backend, path, job.track_id):
                job.errors.append(clean_line(f"{path.name}: {reason}"))
                job.tell(errors=1)
            else:
                job.tell(claimed_new=1)
        resumed = await backend.retry_failed(job.track_id)
        counts = job.counts
        job.message = (
            f"Scanning process completed: {counts['discovered']} discovered, "
            f"{counts['claimed_new']} enqueued, {resumed} resuming, "
            f"{counts['already_processed']} already processed."
        )
        job.status = "completed"
