"""POST /query, /query/stream and /query/data."""

from __future__ import annotations

import json
import time
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, StreamingResponse

from dsh_lightrag.server import replies
from dsh_lightrag.server.backend import Evidence
from dsh_lightrag.server.failures import told_late
from dsh_lightrag.server.requests import QueryRequest  # noqa: TC001 - FastAPI reads it at run time
from dsh_lightrag.server.services import NEEDS_KEY, Leased

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Send

    from dsh_lightrag.server.backend import Answer
    from dsh_lightrag.server.replies import Json

router = APIRouter(tags=["query"], dependencies=[NEEDS_KEY])
# What a retrieval goes through; there is no more to tell of it.
_STEPS = ("retrieving_chunks", "generating_response")


@router.post("/query")
async def query(asked: QueryRequest, backend: Leased) -> JSONResponse:
    """Answer a question."""
    started = time.perf_counter()
    answer = await backend.answer(asked.ask(), stream=False)
    body: Json = {
        "response": await _whole(answer),
        "references": None,
        "response_time": round(time.perf_counter() - started, 3),
        "llm_generated": answer.llm_generated,
    }
    if asked.include_references:
        wanted = bool(asked.include_chunk_content)
        found = replies.references(answer.references, content=wanted)
        body["references"] = found if wanted else [{**one, "content": None} for one in found]
    return JSONResponse(body)


@router.post("/query/data")
async def query_data(asked: QueryRequest, backend: Leased) -> JSONResponse:
    """Return what retrieval finds, without an answer."""
    found = Evidence() if asked.mode == "bypass" else await backend.evidence(asked.ask())
    return JSONResponse(replies.evidence(found, asked.mode))


@router.post("/query/stream")
async def query_stream(request: Request, asked: QueryRequest, backend: Leased) -> StreamingResponse:
    """Answer a question line by line (NDJSON); what fails before the first line has a status."""
    started = time.perf_counter()
    answer = await backend.answer(asked.ask(), stream=asked.stream is not False)
    lines = _lines(answer, asked, request, started)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return _Lines(lines, answer, headers)


class _Lines(StreamingResponse):
    """Lines whose source is closed with them, wherever they are cut, be it before the first."""

    def __init__(
        self, lines: AsyncGenerator[bytes], answer: Answer, headers: dict[str, str]
    ) -> None:
        super().__init__(lines, media_type="application/x-ndjson", headers=headers)
        self._lines = lines
        self._answer = answer

    async def stream_response(self, send: Send) -> None:
        """Send them."""
        async with AsyncExitStack() as closing:
            if not isinstance(self._answer.text, str):
                await closing.enter_async_context(aclosing(self._answer.text))
            await closing.enter_async_context(aclosing(self._lines))
            await super().stream_response(send)


async def _lines(
    answer: Answer, asked: QueryRequest, request: Request, started: float
) -> AsyncGenerator[bytes]:
    """Write a stream; one that its model cuts short says so in its last line."""
    if asked.include_progress:
        for step in _STEPS[: 1 + answer.llm_generated]:
            yield _line(progress=step)
    content = bool(asked.include_chunk_content)
    found = {"references": replies.references(answer.references, content=content)}
    shown: dict[str, Any] = found if asked.include_references else {}
    if isinstance(answer.text, str):
        yield _line(response=answer.text, llm_generated=answer.llm_generated, **shown)
    else:
        if shown:
            yield _line(**shown)
        try:
            async for piece in answer.text:
                yield _line(response=piece)
        except Exception as error:  # noqa: BLE001 - the status is sent: only a line can tell it
            yield _line(error=told_late(request.scope, error))
    if asked.include_progress:
        yield _line(response_time=round(time.perf_counter() - started, 3))


async def _whole(answer: Answer) -> str:
    if isinstance(answer.text, str):
        return answer.text
    async with aclosing(answer.text) as pieces:
        return "".join([piece async for piece in pieces])


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
