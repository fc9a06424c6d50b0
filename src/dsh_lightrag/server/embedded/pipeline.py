"""What a workspace is busy with: indexing that goes on by itself, and one deletion at a time."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dsh_lightrag.server.backend import DELETING, BusyError, PipelineState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.engine import Progress

_REMEMBERED = 1000


class Pipeline:
    """Remembers what was begun and told; used on the event loop alone."""

    def __init__(self) -> None:
        self._told: deque[str] = deque(maxlen=_REMEMBERED)
        self._job = "-"
        self._started: datetime | None = None
        self._deleting = False
        self._filing = 0
        self._docs = 0

    def tell(self, message: str) -> None:
        """Keep a message for whoever looks."""
        self._told.append(message)

    def refuse_while_deleting(self) -> None:
        """Raise `BusyError` while documents are deleted."""
        if self._deleting:
            raise BusyError(DELETING)

    @contextmanager
    def filing(self, documents: int) -> Iterator[None]:
        """Count an insertion that is being filed; refused while documents are deleted."""
        self.refuse_while_deleting()
        self._filing += documents
        try:
            yield
        finally:
            self._filing -= documents
        self._begin(f"Indexing {documents} document(s)", documents)

    def begin_deleting(self, documents: int) -> None:
        """Take the workspace for a deletion; `end_deleting` gives it back."""
        self.refuse_while_deleting()
        self._deleting = True
        self._begin(f"Deleting {documents} Documents", documents)

    def end_deleting(self, message: str) -> None:
        """Give the workspace back."""
        self._deleting = False
        self.tell(message)

    def state(self, progress: Progress, fault: str) -> PipelineState:
        """Return what goes on; an index that waits for a model out of service is not busy."""
        working = progress.pending > 0 and not fault
        latest = self._told[-1] if self._told else ""
        if working and not self._deleting:
            done = progress.chunks - progress.pending
            latest = f"{done} of {progress.chunks} chunks are indexed"
        elif fault:
            latest = f"Waiting for a model: {fault}"
        return PipelineState(
            busy=working or self._deleting,
            deleting=self._deleting,
            job_name=self._job,
            job_start=self._started,
            docs=self._docs,
            batchs=progress.chunks if working else 0,
            cur_batch=progress.chunks - progress.pending if working else 0,
            latest_message=latest,
            history_messages=tuple(self._told),
            pending_enqueues=self._filing,
        )

    def _begin(self, job: str, documents: int) -> None:
        self._job, self._docs, self._started = job, documents, datetime.now(UTC)
        self.tell(job)
