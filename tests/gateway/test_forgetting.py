"""What is forgotten, and what is not yet."""

from __future__ import annotations

import uuid

from sqlalchemy import func, select, text

from dsh_lightrag.gateway.forgetting import forget
from dsh_lightrag.gateway.tables import ApiKey, AuditEntry, SessionToken, UsageLedger

from .harness import Shelf


def days_ago(days):
    return func.now() - text(f"interval '{days} days'")


async def test_each_is_kept_for_its_days_and_no_longer(database, team_id):
    shelf = await Shelf.make(database, team_id)
    key_id = uuid.uuid4()
    async with database.sessions.begin() as session:
        session.add(
            ApiKey(id=key_id, team_id=team_id, name="k", sha256=b"k", scopes=[], quota_per_minute=1)
        )
        for days in (0, 2):
            session.add(UsageLedger(base_id=shelf.base.id, minute=days_ago(days), tokens=days))
            session.add(
                SessionToken(
                    sha256=b"%d" % days,
                    team_id=team_id,
                    key_id=key_id,
                    session_id=f"{days} days",
                    base_ids=[],
                    scopes=[],
                    expires_at=days_ago(days),
                )
            )
        for days in (0, 29, 31):
            session.add(AuditEntry(at=days_ago(days), operation=f"{days} days", outcome="ok"))
    await forget(database, audit_days=30)
    async with database.sessions() as session:
        assert (await session.scalars(select(UsageLedger.tokens))).all() == [0]
        assert (await session.scalars(select(SessionToken.session_id))).all() == ["0 days"]
        kept = await session.scalars(select(AuditEntry.operation).order_by(AuditEntry.operation))
        assert kept.all() == ["0 days", "29 days"]
