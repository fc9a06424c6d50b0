"""LightRAG's document rows and its pipeline's state, in the words of the seam."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from dsh_lightrag.server.backend import DocumentRow, PipelineState, Status
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUSES: tuple[Status, ...] = get_args(Status)
_LAST_MESSAGES = 1000
# Two names or more between slashes: a folder of the machine. One slash is a page of a file.
_PATH = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?(?:[\\/][\w.@+-]+){2,}")
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\).*", re.DOTALL)


def shown(message: str) -> str:
    """Return a message without tracebacks and without the machine's paths, as one line."""
    return clean_line(_PATH.sub("[path]", _TRACEBACK.sub("", message)))


def row_of(doc_id: str, stored: Any) -> DocumentRow:
    """Translate a row that LightRAG gives as a mapping or as an object."""
    fields: Mapping[str, Any] = stored if isinstance(stored, dict) else vars(stored)
    status = getattr(fields["status"], "value", fields["status"])
    error = fields.get("error_msg")
    return DocumentRow(
        id=doc_id,
        file_path=str(fields.get("file_path") or ""),
        status=cast("Status", str(status)),
        content_summary=str(fields.get("content_summary") or ""),
        content_length=int(fields.get("content_length") or 0),
        created_at=moment(fields.get("created_at")),
        updated_at=moment(fields.get("updated_at")),
        track_id=str(fields.get("track_id") or ""),
        chunks_count=fields.get("chunks_count"),
        error_msg=shown(str(error)) if error else None,
        metadata=dict(fields.get("metadata") or {}),
    )


def moment(stored: Any) -> datetime:
    """Translate a time that LightRAG stores as ISO text; one without a zone is in UTC."""
    if isinstance(stored, str) and stored:
        stored = datetime.fromisoformat(stored)
    if not isinstance(stored, datetime):
        return datetime.fromtimestamp(0, UTC)
    return stored if stored.tzinfo else stored.replace(tzinfo=UTC)


def counts_of(stored: Mapping[str, int]) -> dict[Status, int]:
    """Translate counts per status, without LightRAG's sum under `all`."""
    return {status: stored[status] for status in STATUSES if stored.get(status)}


def state_of(stored: Mapping[str, Any], *, waiting: bool) -> PipelineState:
    """Translate the pipeline's state; `waiting` says that work is left to do later."""
    started = stored.get("job_start")
    return PipelineState(
        busy=bool(stored.get("busy")) or waiting,
        deleting=bool(stored.get("destructive_busy")),
        job_name=shown(str(stored.get("job_name") or "-")),
        job_start=moment(started) if started else None,
        docs=int(stored.get("docs") or 0),
        batchs=int(stored.get("batchs") or 0),
        cur_batch=int(stored.get("cur_batch") or 0),
        latest_message=shown(str(stored.get("latest_message") or "")),
        history_messages=tuple(
            message
            for message in map(shown, list(stored.get("history_messages") or ())[-_LAST_MESSAGES:])
            if message
        ),
        pending_enqueues=int(stored.get("pending_enqueues") or 0),
    )
