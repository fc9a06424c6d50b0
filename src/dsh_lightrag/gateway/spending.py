"""What indexing may cost: a base's budget and its rate, charged before a text is filed.

A server tells only afterwards what a text has cost, so that its expected cost is charged first:
a token per four bytes. Where the server counts (`metadata.llm_tokens`), the charge is put right.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.gateway.outcomes import Failed, Waits
from dsh_lightrag.gateway.tables import KnowledgeBase, UsageLedger

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import func, select
    from sqlalchemy.dialects.postgresql import insert

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from dsh_lightrag.gateway.tables import IndexedText

OVER_BUDGET = "over-budget"
BYTES_PER_TOKEN = 4
_MINUTE = timedelta(minutes=1)


def estimate(text: bytes) -> int:
    """Return about how many tokens reading a text takes."""
    return max(1, -(-len(text) // BYTES_PER_TOKEN))


async def charge(session: AsyncSession, filed: IndexedText, tokens: int) -> None:
    """Charge a text's expected tokens to its base, once per filing.

    Raises:
        Failed: `over-budget`.
        Waits: `rate-limited`, until the next minute. An empty minute takes a text of any size,
            or one that is larger than the rate would wait for ever.
    """
    if filed.tokens_charged:
        return
    base = await _locked(session, filed)
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    if base.token_budget is not None and base.tokens_spent + tokens > base.token_budget:
        raise Failed(
            OVER_BUDGET,
            f"Indexing it takes about {tokens} tokens; {base.tokens_spent} of the budget of "
            f"{base.token_budget} are spent.",
        )
    spent = await session.scalar(
        select(UsageLedger.tokens).where(
            UsageLedger.base_id == base.id, UsageLedger.minute == minute
        )
    )
    if base.tokens_per_minute is not None and spent and spent + tokens > base.tokens_per_minute:
        rest = (minute + _MINUTE - datetime.now(UTC)).total_seconds()
        raise Waits(
            "rate-limited",
            f"The base's rate of {base.tokens_per_minute} tokens a minute is used up.",
            after_s=max(rest, 0.1),
        )
    filed.tokens_charged = tokens
    await _book(session, base, minute, tokens)


async def settle(session: AsyncSession, filed: IndexedText, counted: int | None) -> int:
    """Put a charge right where the server has counted; return what the text has cost."""
    charged = filed.tokens_charged
    if counted is None:
        return charged
    filed.tokens_charged = counted
    base = await _locked(session, filed)
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    await _book(session, base, minute, counted - charged)
    return counted


async def _locked(session: AsyncSession, filed: IndexedText) -> KnowledgeBase:
    row = await session.scalars(
        select(KnowledgeBase)
        .where(KnowledgeBase.id == filed.base_id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    return row.one()


async def _book(session: AsyncSession, base: KnowledgeBase, minute: datetime, tokens: int) -> None:
    """Add to the base's sum and to the minute's; neither falls below nothing."""
    base.tokens_spent = max(0, base.tokens_spent + tokens)
    booked = insert(UsageLedger).values(base_id=base.id, minute=minute, tokens=max(0, tokens))
    await session.execute(
        booked.on_conflict_do_update(
            index_elements=[UsageLedger.base_id, UsageLedger.minute],
            set_={"tokens": func.greatest(0, UsageLedger.tokens + tokens)},
        )
    )
