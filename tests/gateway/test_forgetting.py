"""What is forgotten, and what is not yet."""

from __future__ import annotations

import uuid

from sqlalchemy import func, select, text

from dsh_lightrag.gateway import forgetting
from dsh_lightrag.gateway.forgetting import forget
from dsh_lightrag.gateway.tables import ApiKey, AuditEntry, SessionToken, UsageLedger

from .harness import Shelf, eventually, knowledge, served, working

# As an operator may want it whose audit is evidence.
REFUSING = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'append only'; END $$
"""
APPEND_ONLY = """
CREATE TRIGGER append_only BEFORE DELETE ON gateway_audit_entry
FOR EACH ROW EXECUTE FUNCTION refuse()
"""


def days_ago(days):
    return func.now() - text(f"interval '{days} days'")


async def test_a_backlog_goes_in_batches_and_wholly(database, monkeypatch):
    monkeypatch.setattr(forgetting, "BATCH", 3)
    async with database.sessions.begin() as session:
        for number in range(7):
            session.add(AuditEntry(at=days_ago(2), operation=f"use {number}", outcome="ok"))
    await forget(database, audit_days=1)
    assert await uses(database) == []


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


async def test_a_worker_forgets_as_soon_as_it_starts(database, tmp_path):
    await used_long_ago(database)
    async with served(tmp_path) as door, working(database, knowledge(door)):

        async def all_is_forgotten():
            return await uses(database) == []

        await eventually(all_is_forgotten)


async def test_a_worker_that_may_not_forget_indexes_all_the_same(database, team_id, tmp_path):
    await used_long_ago(database)
    shelf = await Shelf.make(database, team_id)
    async with database.sessions.begin() as session:
        for statement in (REFUSING, APPEND_ONLY):
            await session.execute(text(statement))
    async with served(tmp_path) as door, working(database, knowledge(door)):
        await shelf.put("a", "Indexed all the same.")
        assert (await shelf.until("a", "indexed", "failed")).status == "indexed"
    assert await uses(database) == ["long ago"]


async def used_long_ago(database):
    async with database.sessions.begin() as session:
        session.add(AuditEntry(at=days_ago(400), operation="long ago", outcome="ok"))


async def uses(database):
    async with database.sessions() as session:
        return (await session.scalars(select(AuditEntry.operation))).all()
