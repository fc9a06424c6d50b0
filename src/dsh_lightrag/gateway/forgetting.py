"""What a gateway forgets: minutes that no rate looks at, tokens that ran out, old audit entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, text

from dsh_lightrag.gateway.tables import AuditEntry, SessionToken, UsageLedger

if TYPE_CHECKING:
    from dsh_lightrag.gateway.database import Database

# Long after the end, so that clocks that differ and a restored backup do no harm.
_RUN_OUT_DAYS = 1


async def forget(database: Database, audit_days: int) -> None:
    """Delete what nobody asks for any more; audit entries after so many days."""
    too_old = (
        (UsageLedger, UsageLedger.minute, _RUN_OUT_DAYS),
        (SessionToken, SessionToken.expires_at, _RUN_OUT_DAYS),
        (AuditEntry, AuditEntry.at, audit_days),
    )
    async with database.sessions.begin() as session:
        for rows, moment, days in too_old:
            kept = text("make_interval(days => :days)").bindparams(days=days)
            await session.execute(delete(rows).where(moment < func.now() - kept))
