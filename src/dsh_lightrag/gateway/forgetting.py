"""What a gateway forgets: minutes that no rate looks at, tokens that ran out, old audit entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.gateway.tables import AuditEntry, SessionToken, Table, UsageLedger

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import delete, func, inspect, select, tuple_

if TYPE_CHECKING:
    from sqlalchemy.orm import InstrumentedAttribute

    from dsh_lightrag.gateway.database import Database

# Rows of one transaction, so that nothing waits long for it, and a backlog is no single one.
BATCH = 5_000
_DAY = 1


class _Rule(NamedTuple):
    """Rows that go so many days after their moment."""

    table: type[Table]
    moment: InstrumentedAttribute[Any]
    days: int


async def forget(database: Database, audit_days: int) -> None:
    """Delete what nobody asks for any more; audit entries after so many days."""
    for rule in (
        _Rule(UsageLedger, UsageLedger.minute, _DAY),
        _Rule(SessionToken, SessionToken.expires_at, _DAY),
        _Rule(AuditEntry, AuditEntry.at, audit_days),
    ):
        while await _forget_some(database, rule) == BATCH:
            pass


async def _forget_some(database: Database, rule: _Rule) -> int:
    """Delete at most a batch of rows that no other worker is deleting; return how many."""
    key = inspect(rule.table).primary_key
    old = (
        select(*key)
        .where(rule.moment < func.now() - func.make_interval(0, 0, 0, rule.days))
        .limit(BATCH)
        .with_for_update(skip_locked=True)
    )
    async with database.sessions.begin() as session:
        gone = await session.execute(
            delete(rule.table).where(tuple_(*key).in_(old)).returning(*key)
        )
        return len(gone.all())
