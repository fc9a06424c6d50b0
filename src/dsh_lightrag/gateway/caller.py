"""Who calls, once that is proven: the only thing that a workspace is ever derived from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from dsh_lightrag.errors import Code, LightRagError

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable

    from dsh_lightrag.gateway.tables import KnowledgeBase


class Scope(StrEnum):
    """What a key or a token is good for; each stands alone, none includes another."""

    SEARCH = "search"  # ask a base
    DOCUMENTS = "documents"  # see bases, their documents, counts and failures
    INGEST = "ingest"  # put and delete documents
    MANAGE = "manage"  # make, rename and delete bases; issue and revoke session tokens


ALL_SCOPES = frozenset(Scope)
# A worker's token never changes anything, whoever issued it.
TOKEN_SCOPES = frozenset({Scope.SEARCH, Scope.DOCUMENTS})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; made by `Identities` and by nobody else.

    Attributes:
        team_id: whose bases there are for it.
        key_id: its API key, or the one that its token was issued with.
        scopes: what it may do.
        token_id: its session token, or None for a key.
        agent_id: the agent that it is or acts for, or None.
        session_id: the worker's session, empty for a key.
        base_ids: the bases that its token names, or None for all of the team's.
    """

    team_id: uuid.UUID
    key_id: uuid.UUID
    scopes: frozenset[Scope]
    token_id: uuid.UUID | None = None
    agent_id: str | None = None
    session_id: str = ""
    base_ids: frozenset[uuid.UUID] | None = None

    def need(self, scope: Scope) -> None:
        """Let the caller go on, or not.

        Raises:
            LightRagError: `forbidden`, naming the scope.
        """
        if scope not in self.scopes:
            raise LightRagError(Code.FORBIDDEN, f"This needs the scope {scope.value!r}.")

    def acting_for(self, agent_id: str) -> Self:
        """Return the caller as one agent: an orchestrator searching on an agent's behalf.

        Raises:
            LightRagError: `forbidden` for a token, whose agent is settled.
        """
        if self.token_id is not None:
            raise LightRagError(Code.FORBIDDEN, "A session token is one agent's and stays so.")
        return replace(self, agent_id=agent_id)

    def may_see(self, base: KnowledgeBase) -> bool:
        """Tell whether a base is there for this caller at all."""
        return (
            base.team_id == self.team_id
            and base.state == "active"
            and (self.base_ids is None or base.id in self.base_ids)
            and (base.agent_id == self.agent_id or base.agent_id is None or self._manages)
        )

    def may_ask(self, base: KnowledgeBase) -> bool:
        """Tell whether a base answers this caller: an agent's base answers that agent alone."""
        return self.may_see(base) and base.agent_id in {None, self.agent_id}

    @property
    def _manages(self) -> bool:
        """Whether it is a team's key that acts for no agent, and so sees every agent's bases."""
        return self.token_id is None and self.agent_id is None


def scopes_of(words: Iterable[str], allowed: frozenset[Scope]) -> frozenset[Scope]:
    """Read scopes.

    Raises:
        LightRagError: `invalid-argument` for none at all, or one that is not allowed here.
    """
    given = frozenset(words)
    if not given or not given <= {scope.value for scope in allowed}:
        known = ", ".join(sorted(allowed))
        raise LightRagError(Code.INVALID_ARGUMENT, f"scopes must be some of: {known}.")
    return frozenset(map(Scope, given))
