"""Keys of teams and tokens of workers: issued once, stored as digests, verified at every request.

A key and a token are 256 random bits; what is stored is their SHA-256, which needs no salt. One
that is unknown, expired, revoked or malformed gets the same answer, so that nothing is learnt.
"""

from __future__ import annotations

import hmac
import re
import secrets
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.caller import ALL_SCOPES, TOKEN_SCOPES, Caller, Scope, scopes_of
from dsh_lightrag.gateway.names import checked_name
from dsh_lightrag.gateway.tables import (
    ApiKey,
    AuditEntry,
    KeyUsage,
    KnowledgeBase,
    SessionToken,
    Team,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

SECRET_BYTES = 32
KEY_PREFIX, TOKEN_PREFIX = "dshk_", "dsht_"
DEFAULT_QUOTA = 600
TOKEN_SECONDS = (60, 24 * 3600)
MAX_TOKEN_BASES = 100
_SECRET = re.compile(r"dsh([kt])_[A-Za-z0-9_-]{43}")
_BEARER = re.compile(r"(?i)bearer +([!-~]{1,200})")
# How precisely a key's last use is kept; more would write the same row at every request.
_LAST_USE = timedelta(minutes=1)
_USAGE_KEPT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A secret as it is shown, once; `text` is kept nowhere."""

    id: uuid.UUID
    text: str
    expires_at: datetime | None = None


class Identities:
    """Teams, keys and tokens in the database."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    # --- teams and keys, by the operator -------------------------------------------------------

    async def create_team(self, name: str) -> uuid.UUID:
        """Make a team.

        Raises:
            LightRagError: `conflict`, when there is one of that name; `invalid-argument` for a
                name that is none.
        """
        team = Team(id=uuid.uuid4(), name=checked_name(name, "name"))
        try:
            async with self._sessions.begin() as session:
                session.add(team)
        except IntegrityError:
            raise LightRagError(
                Code.CONFLICT, "There is a team of that name.", hint="Choose another name."
            ) from None
        return team.id

    async def teams(self) -> Sequence[Team]:
        """Return every team, oldest first."""
        async with self._sessions() as session:
            return (await session.scalars(select(Team).order_by(Team.created_at))).all()

    async def team_named(self, name: str) -> Team:
        """Return a team by its name.

        Raises:
            LightRagError: `not-found`.
        """
        async with self._sessions() as session:
            team = await session.scalar(select(Team).where(Team.name == name))
        if team is None:
            raise LightRagError(
                Code.NOT_FOUND,
                "There is no team of that name.",
                hint="`dsh-lightrag gateway team list` tells which there are.",
            )
        return team

    async def create_key(
        self,
        team_id: uuid.UUID,
        name: str,
        scopes: Iterable[str] = ALL_SCOPES,
        quota_per_minute: int = DEFAULT_QUOTA,
    ) -> Issued:
        """Issue a key of a team.

        Raises:
            LightRagError: `invalid-argument` for a name, scopes or a quota that are none.
        """
        if quota_per_minute < 1:
            raise LightRagError(Code.INVALID_ARGUMENT, "The quota must be at least 1.")
        checked_name(name, "name")
        granted = scopes_of(scopes, ALL_SCOPES)
        issued = Issued(uuid.uuid4(), _new_secret(KEY_PREFIX))
        async with self._sessions.begin() as session:
            session.add(
                ApiKey(
                    id=issued.id,
                    team_id=team_id,
                    name=name,
                    sha256=_digest(issued.text),
                    scopes=sorted(granted),
                    quota_per_minute=quota_per_minute,
                )
            )
        return issued

    async def keys(self, team_id: uuid.UUID) -> Sequence[ApiKey]:
        """Return a team's keys, the revoked ones too, oldest first."""
        chosen = select(ApiKey).where(ApiKey.team_id == team_id).order_by(ApiKey.created_at)
        async with self._sessions() as session:
            return (await session.scalars(chosen)).all()

    async def revoke_key(self, key_id: uuid.UUID) -> None:
        """Revoke a key and with it every token that was issued with it; at once, and idempotent.

        Raises:
            LightRagError: `not-found`.
        """
        async with self._sessions.begin() as session:
            key = await session.get(ApiKey, key_id)
            if key is None:
                raise LightRagError(
                    Code.NOT_FOUND,
                    "There is no key of that id.",
                    hint="`dsh-lightrag gateway key list` tells which there are.",
                )
            key.revoked_at = key.revoked_at or datetime.now(UTC)

    async def revoke_team(self, team_id: uuid.UUID) -> None:
        """Revoke every key of a team, with all their tokens; its bases stay."""
        async with self._sessions.begin() as session:
            await session.execute(
                update(ApiKey)
                .where(ApiKey.team_id == team_id, ApiKey.revoked_at.is_(None))
                .values(revoked_at=datetime.now(UTC))
            )

    # --- tokens, by a key that manages -----------------------------------------------------------

    async def issue_token(  # noqa: PLR0913 - a token is bound to all of these
        self,
        caller: Caller,
        *,
        base_ids: Sequence[uuid.UUID],
        agent_id: str | None,
        session_id: str,
        seconds: int,
        scopes: Iterable[str],
    ) -> Issued:
        """Issue a session token for a worker; it may do no more than the key that issues it.

        Raises:
            LightRagError: `forbidden` for a caller that may not; `not-found` for a base that is
                not there for the token's agent; `invalid-argument` for scopes or a time that are
                none.
        """
        caller.need(Scope.MANAGE)
        shortest, longest = TOKEN_SECONDS
        if not shortest <= seconds <= longest:
            raise LightRagError(
                Code.INVALID_ARGUMENT, f"A token lives for {shortest} to {longest} seconds."
            )
        granted = scopes_of(scopes, TOKEN_SCOPES)
        for scope in granted:
            caller.need(scope)
        wanted = frozenset(base_ids)
        if not 1 <= len(wanted) <= MAX_TOKEN_BASES:
            raise LightRagError(
                Code.INVALID_ARGUMENT, f"A token names 1 to {MAX_TOKEN_BASES} bases."
            )
        worker = caller if agent_id is None else caller.acting_for(agent_id)
        async with self._sessions.begin() as session:
            found = await session.scalars(select(KnowledgeBase).where(KnowledgeBase.id.in_(wanted)))
            if {base.id for base in found if worker.may_ask(base)} != wanted:
                raise LightRagError(
                    Code.NOT_FOUND,
                    "There is no such knowledge base for this agent.",
                    hint="Name bases of the agent, or bases that its team shares.",
                )
            # The clock that `verify` asks: several machines issue tokens, each with its own.
            now = (await session.execute(select(func.now()))).scalar_one()
            expires_at = now + timedelta(seconds=seconds)
            issued = Issued(uuid.uuid4(), _new_secret(TOKEN_PREFIX), expires_at)
            session.add(
                SessionToken(
                    id=issued.id,
                    sha256=_digest(issued.text),
                    team_id=caller.team_id,
                    key_id=caller.key_id,
                    agent_id=agent_id,
                    session_id=session_id,
                    base_ids=sorted(wanted),
                    scopes=sorted(granted),
                    expires_at=expires_at,
                )
            )
        return issued

    async def revoke_token(self, caller: Caller, token_id: uuid.UUID) -> None:
        """Revoke a token of the caller's team, at once; idempotent.

        Raises:
            LightRagError: `forbidden`; `not-found` for one that is not the team's.
        """
        caller.need(Scope.MANAGE)
        async with self._sessions.begin() as session:
            token = await session.get(SessionToken, token_id)
            if token is None or token.team_id != caller.team_id:
                raise LightRagError(
                    Code.NOT_FOUND, "There is no such token.", hint="Check the token's id."
                )
            token.revoked_at = token.revoked_at or datetime.now(UTC)

    # --- at every request ------------------------------------------------------------------------

    async def verify(self, authorization: str | None) -> Caller:
        """Return who an Authorization header proves to call, and count the request.

        Raises:
            LightRagError: `unauthorized`; `rate-limited` with the seconds until the key's next
                minute begins.
        """
        match = _BEARER.fullmatch(authorization or "")
        kind = _SECRET.fullmatch(match[1]) if match else None
        if match is None or kind is None:
            raise _unauthorized()
        digest = _digest(match[1])
        async with self._sessions.begin() as session:
            if kind[1] == "k":
                caller, quota = await _key_caller(session, digest)
            else:
                caller, quota = await _token_caller(session, digest)
            await _count(session, caller.key_id, quota)
        return caller

    async def record(
        self, caller: Caller, operation: str, base_id: uuid.UUID | None, outcome: str
    ) -> None:
        """Keep that a key or a token was used: what for, on which base, with what outcome."""
        async with self._sessions.begin() as session:
            session.add(
                AuditEntry(
                    team_id=caller.team_id,
                    key_id=caller.key_id,
                    token_id=caller.token_id,
                    operation=operation,
                    base_id=base_id,
                    outcome=outcome,
                )
            )


async def _key_caller(session: AsyncSession, digest: bytes) -> tuple[Caller, int]:
    key = await session.scalar(
        select(ApiKey).where(ApiKey.sha256 == digest, ApiKey.revoked_at.is_(None))
    )
    if key is None or not hmac.compare_digest(key.sha256, digest):
        raise _unauthorized()
    return Caller(key.team_id, key.id, frozenset(map(Scope, key.scopes))), key.quota_per_minute


async def _token_caller(session: AsyncSession, digest: bytes) -> tuple[Caller, int]:
    found = await session.execute(
        select(SessionToken, ApiKey)
        .join(ApiKey, ApiKey.id == SessionToken.key_id)
        .where(
            SessionToken.sha256 == digest,
            SessionToken.revoked_at.is_(None),
            SessionToken.expires_at > func.now(),
            ApiKey.revoked_at.is_(None),
        )
    )
    row = found.one_or_none()
    if row is None or not hmac.compare_digest(row.SessionToken.sha256, digest):
        raise _unauthorized()
    token: SessionToken = row.SessionToken
    caller = Caller(
        team_id=token.team_id,
        key_id=token.key_id,
        scopes=frozenset(map(Scope, token.scopes)),
        token_id=token.id,
        agent_id=token.agent_id,
        session_id=token.session_id,
        base_ids=frozenset(token.base_ids),
    )
    return caller, row.ApiKey.quota_per_minute


async def _count(session: AsyncSession, key_id: uuid.UUID, quota: int) -> None:
    """Count one request of this minute, in one statement, so that no two processes miss one."""
    now = datetime.now(UTC)
    minute = now.replace(second=0, microsecond=0)
    counted = insert(KeyUsage).values(key_id=key_id, minute=minute, requests=1)
    uses = await session.scalar(
        counted.on_conflict_do_update(
            index_elements=[KeyUsage.key_id, KeyUsage.minute],
            set_={"requests": KeyUsage.requests + 1},
        ).returning(KeyUsage.requests)
    )
    if uses == 1:
        old = delete(KeyUsage).where(
            KeyUsage.key_id == key_id, KeyUsage.minute < minute - _USAGE_KEPT
        )
        await session.execute(old)
        stale = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at < now - _LAST_USE)
        await session.execute(
            update(ApiKey).where(ApiKey.id == key_id, stale).values(last_used_at=now)
        )
    if uses is None or uses > quota:
        raise LightRagError(
            Code.RATE_LIMITED,
            f"The key's quota of {quota} requests per minute is used up.",
            retry_after_s=60 - now.second,
        )


def _new_secret(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _unauthorized() -> LightRagError:
    return LightRagError(
        Code.UNAUTHORIZED,
        "The Authorization header holds no key or token that is good here.",
        hint="Send `Authorization: Bearer` with a key, or with a session token that is not over.",
    )
