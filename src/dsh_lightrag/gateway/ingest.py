"""Indexing one document: from what was put to what answers.

A job looks at the row and does what is next: make a text of the content, share it with documents
that have the same one, charge it, file it under its own name, watch the server, and only when the
server says `processed` let it answer instead of the former version. Every step can be repeated:
a job that is killed anywhere leaves rows from which the next one goes on. The knowledge server's
word is the only one for `indexed`.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.convert import ConversionError, text_of
from dsh_lightrag.errors import Code, LightRagError, needs_extra
from dsh_lightrag.gateway import progress, spending
from dsh_lightrag.gateway.outcomes import Failed, StillIndexing, Waits, of_server
from dsh_lightrag.gateway.removal import remove_filed, remove_unwanted
from dsh_lightrag.gateway.tables import Content, IndexedText, KnowledgeBase, KnowledgeDocument
from dsh_lightrag.logs import frames_of, get_logger
from dsh_lightrag.text import clean

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import select, update

if TYPE_CHECKING:
    import uuid

    from dsh_lightrag.gateway.database import Database
    from dsh_lightrag.gateway.knowledge import KnowledgeServer
    from dsh_lightrag.gateway.progress import Work
    from dsh_lightrag.wire import Document

# How long one job watches a text: the fast ones are done by then, and the slow ones hold nobody up.
WATCH_S = 5.0
_FIRST_LOOK_S = 0.05
_LAST_LOOK_S = 0.5
# The real server answers some milliseconds before an insertion can be looked up.
_APPEARS_S = 3.0
# All of one job. What takes longer is done again, from where it stood.
JOB_S = 300.0


@dataclass(frozen=True, slots=True)
class _Filed:
    """A text as it stands: its id, name and state, and by which insertion it was filed."""

    id: uuid.UUID
    file_name: str
    state: str
    track_id: str


class Superseded(Exception):  # noqa: N818 - no error: another job looks at what was put since
    """Something else was put, or the document was deleted, while the job was running."""


class Indexer:
    """Indexes documents of one database on one knowledge server."""

    def __init__(self, database: Database, server: KnowledgeServer) -> None:
        self._database = database
        self._server = server

    async def index(self, document_id: uuid.UUID) -> None:
        """Look at a document and do what is next; how it ends stands in its row.

        Raises only what the database does.
        """
        work = await progress.begin(self._database, document_id)
        if work is None:
            return
        try:
            async with asyncio.timeout(JOB_S):
                await self._index(work)
        except Superseded:
            return
        except StillIndexing as still:
            await progress.watch_later(self._database, work, still.message)
        except Failed as failed:
            await progress.fail(self._database, work, failed)
        except Waits as waits:
            await progress.wait(self._database, work, waits)
        except LightRagError as error:
            await progress.end(self._database, work, of_server(error))
        except Exception as error:  # noqa: BLE001 - a bug: the document waits and is not lost
            fault = {"error": type(error).__name__, "frames": frames_of(error)}
            get_logger().warning("indexing_broke", **fault)
            message = "The gateway failed; the operator finds more in its log."
            broken = Waits(Code.SERVER_ERROR.value, message, attempt=True)
            await progress.wait(self._database, work, broken)

    async def _index(self, work: Work) -> None:
        body = await self._text(work)
        filed = await self._adopt(work, body)
        if filed.state == "failed":
            filed = await self._try_again(work, filed)
        if filed.state == "waiting":
            # Before filing: the server refuses a text that it still holds under a former name.
            await remove_unwanted(self._database, self._server, work.base_id)
            await self._charge(filed, spending.estimate(body))
            filed = await self._file(work, filed, body.decode())
        if filed.state == "filed":
            await self._settle(work, filed, await self._watch(work, filed))
        else:
            await progress.answer(self._database, work, filed.id)
        await remove_unwanted(self._database, self._server, work.base_id)

    # --- from content to a text -----------------------------------------------------------------

    async def _text(self, work: Work) -> bytes:
        """Return the content as UTF-8 text; a file is converted once and kept as text."""
        if work.is_text:
            return work.body
        try:
            text = await asyncio.to_thread(text_of, work.file_name, work.body)
        except ConversionError as error:
            raise Failed(Code.INVALID_ARGUMENT.value, str(error)) from None
        body = clean(text).encode()
        async with self._database.sessions.begin() as session:
            await session.execute(
                update(Content)
                .where(Content.document_id == work.document_id, Content.version == work.version)
                .values(body=body, is_text=True)
            )
        return body

    async def _adopt(self, work: Work, body: bytes) -> _Filed:
        """Point the document at its text: the one that another document has brought, or a new one.

        Raises:
            Superseded: the content is not the newest any more.
        """
        if not body.strip():
            raise Failed(Code.INVALID_ARGUMENT.value, "It holds no text.")
        checksum = hashlib.sha256(body).digest()
        async with self._database.sessions.begin() as session:
            document = await session.get(KnowledgeDocument, work.document_id, with_for_update=True)
            base = await session.get(KnowledgeBase, work.base_id)
            if document is None or document.version != work.version:
                raise Superseded
            if base is None or base.state != "active":
                raise Superseded
            # Locked until the document points at it: nobody may begin to drop it meanwhile.
            text = await session.scalar(
                select(IndexedText)
                .where(
                    IndexedText.base_id == work.base_id,
                    IndexedText.checksum == checksum,
                    IndexedText.state != "dropping",
                )
                .with_for_update()
            )
            if text is None:
                text = IndexedText(
                    base_id=work.base_id,
                    checksum=checksum,
                    file_name=f"{work.document_id}-v{work.version}.txt",
                    state="waiting",
                )
                session.add(text)
                await session.flush()
            document.wanted_text_id = text.id
            return _Filed(text.id, text.file_name, text.state, text.track_id or "")

    # --- on the server --------------------------------------------------------------------------

    async def _charge(self, filed: _Filed, tokens: int) -> None:
        """Charge the text and mark it filed, before the server hears of it.

        After a crash a marked text is looked for on the server; one that is not marked is not
        there for certain.
        """
        async with self._database.sessions.begin() as session:
            text = await session.get_one(IndexedText, filed.id, with_for_update=True)
            await spending.charge(session, text, tokens)
            text.state, text.track_id = "filed", None

    async def _file(self, work: Work, filed: _Filed, body: str) -> _Filed:
        try:
            track_id = await self._server.file(work.workspace, filed.file_name, body)
        except LightRagError as error:
            if error.code is not Code.CONFLICT:
                raise
            # Filed by a job that was killed; or else the server is deleting something.
            known = await self._server.look(work.workspace, filed.file_name, "")
            if known is None:
                await self._mark(filed.id, "waiting")
                raise
            track_id = known.track_id or ""
        await self._drop_if_deleted(work)
        await self._mark(filed.id, "filed", track_id)
        return _Filed(filed.id, filed.file_name, "filed", track_id)

    async def _drop_if_deleted(self, work: Work) -> None:
        """Take back a workspace that filing made anew while its base was being deleted.

        Raises:
            Superseded: it was; nobody else would look for it any more.
        """
        async with self._database.sessions() as session:
            base = await session.get(KnowledgeBase, work.base_id)
        if base is None or base.state != "active":
            await self._server.drop(work.workspace)
            raise Superseded

    async def _watch(self, work: Work, filed: _Filed) -> Document:
        """Return the server's row once it says how indexing ended.

        Raises:
            StillIndexing: not yet.
            Waits: the server does not know the text; it is filed again.
        """
        clock = asyncio.get_running_loop().time
        begun, pause = clock(), _FIRST_LOOK_S
        while True:
            row = await self._server.look(work.workspace, filed.file_name, filed.track_id)
            if row is not None and row.status in {"processed", "failed"}:
                return row
            waited = clock() - begun
            if row is None and (not filed.track_id or waited > _APPEARS_S):
                await self._mark(filed.id, "waiting")
                raise Waits(
                    Code.SERVER_ERROR.value, "The knowledge server lost it; it is filed again."
                )
            if waited > WATCH_S:
                raise StillIndexing((row.error_msg if row else None) or "")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK_S)

    async def _settle(self, work: Work, filed: _Filed, row: Document) -> None:
        """Take the server's word: let the text answer, or say why it does not."""
        counted = row.metadata.llm_tokens if row.metadata else None
        if row.status == "processed" and row.chunks_count:
            await progress.indexed(self._database, work, filed.id, row.id, counted)
            return
        await progress.refused(self._database, filed.id, row.id, counted)
        if row.status == "processed":
            raise Failed(Code.INVALID_ARGUMENT.value, "The knowledge server found no text in it.")
        message = row.error_msg or "The knowledge server gives no reason."
        raise Waits(Code.SERVER_ERROR.value, message, attempt=True)

    async def _try_again(self, work: Work, filed: _Filed) -> _Filed:
        """Take back what the server failed to index, unless it goes on with it by itself."""
        row = await self._server.look(work.workspace, filed.file_name, filed.track_id)
        if row is not None and row.status != "failed":
            await self._mark(filed.id, "filed", filed.track_id)
            return _Filed(filed.id, filed.file_name, "filed", filed.track_id)
        async with self._database.sessions() as session:
            text = await session.get_one(IndexedText, filed.id)
        await remove_filed(self._server, work.workspace, text)
        await self._mark(filed.id, "waiting")
        return _Filed(filed.id, filed.file_name, "waiting", "")

    async def _mark(self, text_id: uuid.UUID, state: str, track_id: str | None = None) -> None:
        values: dict[str, object] = {"state": state, "track_id": track_id}
        if state == "waiting":
            values |= {"server_id": None, "tokens_charged": 0}
        async with self._database.sessions.begin() as session:
            await session.execute(
                update(IndexedText).where(IndexedText.id == text_id).values(values)
            )
