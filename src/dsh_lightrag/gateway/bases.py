"""Knowledge bases: made, listed, renamed and deleted by their team.

Every function works in the caller's session and leaves the commit to it; what a worker has to do
is queued in the same transaction. What is not there, or is another team's, or is being deleted,
is `not-found` alike.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.errors import Code, LightRagError, needs_extra
from dsh_lightrag.gateway import queue
from dsh_lightrag.gateway.tables import KnowledgeBase, UsageLedger

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import func, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True, slots=True)
class Usage:
    """What indexing a base has spent, in tokens, beside what it may.

    `token_budget` and `tokens_per_minute` are None where nothing is bounded.
    """

    tokens_spent: int
    token_budget: int | None
    tokens_this_minute: int
    tokens_per_minute: int | None


def no_such_base() -> LightRagError:
    """Return the one answer for what a caller may not see: as if it did not exist."""
    return LightRagError(
        Code.NOT_FOUND,
        "There is no such knowledge base.",
        hint="List the knowledge bases and call again with the id of one.",
    )


async def create_base(  # noqa: PLR0913 - what a base has
    session: AsyncSession,
    team_id: uuid.UUID,
    name: str,
    *,
    agent_id: str | None = None,
    token_budget: int | None = None,
    tokens_per_minute: int | None = None,
) -> KnowledgeBase:
    """Make a base and, by chance alone, the name of its workspace.

    The workspace is made on the server when the first document is indexed; a base without an
    indexed document is searched without asking the server.
    """
    base = KnowledgeBase(
        team_id=team_id,
        agent_id=agent_id,
        name=name,
        workspace=f"kb_{uuid.uuid4().hex}",
        token_budget=token_budget,
        tokens_per_minute=tokens_per_minute,
    )
    session.add(base)
    await session.flush()
    await session.refresh(base)
    return base


async def list_bases(session: AsyncSession, team_id: uuid.UUID) -> Sequence[KnowledgeBase]:
    """Return the team's bases, those of its agents too, oldest first."""
    found = await session.scalars(
        select(KnowledgeBase)
        .where(KnowledgeBase.team_id == team_id, KnowledgeBase.state == "active")
        .order_by(KnowledgeBase.created_at, KnowledgeBase.id)
    )
    return found.all()


async def get_base(session: AsyncSession, team_id: uuid.UUID, base_id: uuid.UUID) -> KnowledgeBase:
    """Return a base of the team, whichever agent it belongs to: for who manages it.

    Raises:
        LightRagError: `not-found`.
    """
    base = await session.get(KnowledgeBase, base_id, populate_existing=True)
    if base is None or base.team_id != team_id or base.state != "active":
        raise no_such_base()
    return base


async def rename_base(
    session: AsyncSession, team_id: uuid.UUID, base_id: uuid.UUID, name: str
) -> KnowledgeBase:
    """Rename a base; its workspace keeps its name.

    Raises:
        LightRagError: `not-found`.
    """
    base = await get_base(session, team_id, base_id)
    base.name = name
    await session.flush()
    return base


async def delete_base(session: AsyncSession, team_id: uuid.UUID, base_id: uuid.UUID) -> None:
    """Hide a base at once, cancel its jobs, and queue the removal of all it holds.

    Raises:
        LightRagError: `not-found`.
    """
    await get_base(session, team_id, base_id)
    # FOR UPDATE: whoever puts a document holds the row's key and is waited for.
    base = await session.scalar(
        select(KnowledgeBase)
        .where(KnowledgeBase.id == base_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if base is None or base.state != "active":
        raise no_such_base()
    base.state = "deleting"
    base.deleted_at = func.now()
    await queue.cancel(session, base_id)
    await queue.defer(session, queue.Job.DROP, base_id)


async def usage(session: AsyncSession, base: KnowledgeBase) -> Usage:
    """Return what indexing the base has spent, in all and in this minute."""
    minute = await session.scalar(
        select(UsageLedger.tokens).where(
            UsageLedger.base_id == base.id,
            UsageLedger.minute == func.date_trunc("minute", func.now()),
        )
    )
    return Usage(base.tokens_spent, base.token_budget, minute or 0, base.tokens_per_minute)
