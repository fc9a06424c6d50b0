"""Removing from the knowledge server what no document points at any more, and whole bases.

A text is marked first, then removed on the server, and its row goes last: whatever is killed in
between is done again. While documents share a text it stays.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dsh_lightrag.errors import Code, LightRagError, needs_extra
from dsh_lightrag.gateway.tables import IndexedText, KnowledgeBase, KnowledgeDocument

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import delete, exists, or_, select

if TYPE_CHECKING:
    import uuid

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncSession

    from dsh_lightrag.gateway.database import Database
    from dsh_lightrag.gateway.knowledge import KnowledgeServer
    from dsh_lightrag.wire import Document

# How long a deletion on the server is waited for; afterwards it is looked at again.
_GONE_S = 10.0
_LOOK_S = 0.05
_LAST_LOOK_S = 0.5


def unwanted() -> ColumnElement[bool]:
    """Return the condition under which a text is to be removed."""
    wanted = exists().where(
        or_(
            KnowledgeDocument.current_text_id == IndexedText.id,
            KnowledgeDocument.wanted_text_id == IndexedText.id,
        )
    )
    return or_(IndexedText.state == "dropping", ~wanted)


async def remove_unwanted(database: Database, server: KnowledgeServer, base_id: uuid.UUID) -> None:
    """Remove every text of a base that no document points at.

    Raises:
        LightRagError: as the client; what was marked stays so and is tried again.
    """
    async with database.sessions() as session:
        ids = await session.scalars(
            select(IndexedText.id).where(IndexedText.base_id == base_id, unwanted())
        )
    for text_id in ids.all():
        async with database.sessions.begin() as session:
            marked = await _mark(session, text_id)
            workspace = await session.scalar(
                select(KnowledgeBase.workspace).where(KnowledgeBase.id == base_id)
            )
        if marked is None or workspace is None:
            continue
        await remove_filed(server, workspace, marked)
        async with database.sessions.begin() as session:
            await session.execute(delete(IndexedText).where(IndexedText.id == text_id))


async def remove_filed(server: KnowledgeServer, workspace: str, text: IndexedText) -> None:
    """Remove a text from the server and see that it is gone.

    Raises:
        LightRagError: as the client; `busy` when it is still there after a while.
    """
    if text.state == "waiting":
        return  # never filed
    track_id = text.track_id or ""
    loop = asyncio.get_running_loop()
    ends, pause, asked = loop.time() + _GONE_S, _LOOK_S, False
    while (row := await _filed(server, workspace, text.file_name, track_id)) is not None:
        if not asked:
            await server.remove(workspace, [row.id])
            asked = True
            continue
        if loop.time() > ends:
            raise LightRagError(Code.BUSY, "A deletion on the knowledge server takes long.")
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LAST_LOOK_S)


async def drop_base(database: Database, server: KnowledgeServer, base_id: uuid.UUID) -> None:
    """Drop the workspace of a base that is being deleted, and last of all its row.

    Raises:
        LightRagError: as the client; it is tried again.
    """
    async with database.sessions() as session:
        base = await session.get(KnowledgeBase, base_id)
    if base is None or base.state != "deleting":
        return
    await server.drop(base.workspace)
    async with database.sessions.begin() as session:
        await session.execute(delete(KnowledgeBase).where(KnowledgeBase.id == base_id))


async def _mark(session: AsyncSession, text_id: uuid.UUID) -> IndexedText | None:
    """Mark a text for removal unless a document has come to want it; None when nothing is filed.

    Looked at anew once the row is locked: a document that is pointed at it locks it, too.
    """
    text = await session.get(IndexedText, text_id, with_for_update=True)
    if text is None:
        return None
    still = await session.scalar(
        select(IndexedText.id).where(IndexedText.id == text_id, unwanted())
    )
    if still is None:
        return None
    if text.state == "waiting":
        await session.delete(text)
        return None
    text.state = "dropping"
    return text


async def _filed(
    server: KnowledgeServer, workspace: str, file_name: str, track_id: str
) -> Document | None:
    """Return the server's row of a text; None when the text or the whole workspace is gone."""
    try:
        return await server.look(workspace, file_name, track_id)
    except LightRagError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return None
