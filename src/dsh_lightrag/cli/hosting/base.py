"""A base over HTTP, as ingestion needs it: list, insert, delete and wait, with patience."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from dsh_lightrag.budget import Budget
from dsh_lightrag.client import LightRagClient
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.wire import DeleteRequest, DocumentsRequest, InsertRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

    from dsh_lightrag.settings import LightRagSettings
    from dsh_lightrag.transport import Transport
    from dsh_lightrag.wire import Document

T = TypeVar("T")

PAGE_SIZE = 200
# Ids in one request; ten thousand would be a body of half a megabyte.
DELETED_AT_ONCE = 500
UNFINISHED = ("pending", "parsing", "analyzing", "processing", "preprocessed")
# How long a base that is busy with a deletion is asked again; a large one takes minutes.
BUSY_S = 600.0
POLL_S = 0.1
_LONGEST_POLL_S = 2.0
_BUSY_WORDS = "Pipeline is"


class Base:
    """The documents of one base; every request has the settings' time, and waits have none."""

    def __init__(self, transport: Transport, settings: LightRagSettings) -> None:
        self._transport = transport
        self._timeout_ms = settings.timeout_ms

    def _client(self) -> LightRagClient:
        return LightRagClient(self._transport, Budget.start(self._timeout_ms))

    async def documents(self) -> dict[str, list[Document]]:
        """Return every row of the list, by the name that it is filed under."""
        rows: dict[str, list[Document]] = {}
        async for row in self._rows():
            rows.setdefault(row.file_path or "", []).append(row)
        return rows

    async def _rows(self) -> AsyncIterator[Document]:
        page = 1
        while True:
            request = DocumentsRequest(page=page, page_size=PAGE_SIZE)
            reply = await self._client().documents(request)
            for row in reply.documents:
                yield row
            if not reply.pagination.has_next or not reply.documents:
                return
            page += 1

    async def insert(self, name: str, text: str) -> None:
        """File a text; durable when this returns."""
        request = InsertRequest(text=text, file_source=name)
        await self._patiently(lambda: self._client().insert(request))

    async def replace(self, name: str, text: str, ids: Sequence[str]) -> None:
        """Delete documents and file a text under the name that they had.

        The server lets go of a name when it has deleted the document, which it does later.
        """
        await self._delete(ids)
        request = InsertRequest(text=text, file_source=name)
        await self._patiently(lambda: self._client().insert(request), also=(Code.CONFLICT,))

    async def delete(self, ids: Sequence[str]) -> None:
        """Delete documents and wait until they are gone."""
        for begin in range(0, len(ids), DELETED_AT_ONCE):
            some = ids[begin : begin + DELETED_AT_ONCE]
            await self._delete(some)
            await self._gone(set(some))

    async def _delete(self, ids: Sequence[str]) -> None:
        request = DeleteRequest(doc_ids=list(ids))
        await self._patiently(lambda: self._client().delete(request))

    async def _gone(self, ids: Collection[str]) -> None:
        wait = POLL_S
        while True:
            left = {row.id for rows in (await self.documents()).values() for row in rows}
            if not left.intersection(ids):
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_POLL_S)

    async def unfinished(self) -> tuple[int, int]:
        """Return how many documents are not indexed yet, and how many there are."""
        counts = (await self._client().status_counts()).status_counts
        left = sum(count for state, count in counts.items() if state.lower() in UNFINISHED)
        return left, counts.get("all", sum(counts.values()))

    async def is_busy(self) -> bool:
        """Tell whether the server works on documents."""
        return (await self._client().health()).busy

    async def _patiently(self, ask: Callable[[], Awaitable[T]], also: Collection[Code] = ()) -> T:
        """Ask again while the base is busy, or refuses with a code that will pass."""
        deadline = asyncio.get_running_loop().time() + BUSY_S
        wait = POLL_S
        while True:
            try:
                return await ask()
            except LightRagError as error:
                passes = _is_busy(error) or error.code in also
                if not passes or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_POLL_S)


def _is_busy(error: LightRagError) -> bool:
    """Tell whether a refusal passes by itself; LightRAG has one status for this and for a name."""
    in_words = error.code is Code.CONFLICT and _BUSY_WORDS in error.message
    return in_words or error.code in (Code.BUSY, Code.RATE_LIMITED)
