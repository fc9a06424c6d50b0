"""A world of teams, agents, bases, documents and tokens that knows what each answer may show.

Every name, id and text carries canaries. Whatever comes back for a base is searched for canaries,
and may hold those alone that the base holds now. Steps come by number, so that a state machine or
a random generator can choose them; one team is only ever changed by one of them at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import anyio
import gateway_support
from gateway_support import BOUND_S, working
from sqlalchemy import update

from dsh_lightrag.gateway.tables import SessionToken

CANARY = re.compile(r"canary[0-9a-f]{16}")
# In every document, so that a search of one base would find what another base holds.
COMMON = "harvest report"
AGENTS = (None, "agent-1", "agent-2")
QUOTA = 10**6


def canary():
    return f"canary{uuid4().hex[:16]}"


@dataclass
class Document:
    """A document, and the canaries that answers may show for it."""

    external_id: str
    mark: str
    text: str
    shown: set[str]


@dataclass
class Base:
    """A base; `mark` is in its name. Deleted ones stay, and may show nothing."""

    id: str
    agent: str | None
    mark: str
    documents: dict[str, Document] = field(default_factory=dict)
    live: bool = True

    @property
    def shown(self):
        """Every canary that an answer of this base may hold."""
        marks = {one.mark for one in self.documents.values()}
        return marks.union(*(one.shown for one in self.documents.values()))


@dataclass
class Token:
    """A session token, and the bases that it names."""

    id: str
    headers: dict[str, str]
    agent: str | None
    bases: list[Base]
    good: bool = True


@dataclass
class Team:
    """A team with its key, and what it has."""

    headers: dict[str, str]
    bases: list[Base] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)

    @property
    def live(self):
        return [base for base in self.bases if base.live]


class World:
    """A gateway with its worker and its knowledge server, which can be restarted together."""

    def __init__(self, database_url, folder):
        self._database_url = database_url
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()
        self.gateway = None
        self.bases = []
        self.steps = Counter()

    async def __aenter__(self):
        # Three open workspaces for all bases: most searches evict one.
        settings = await self._stack.enter_async_context(
            gateway_support.knowledge_server(self._folder, most_open=3)
        )
        self.gateway = await self._stack.enter_async_context(
            gateway_support.gateway(self._database_url, settings)
        )
        await self._stack.enter_async_context(working(self.gateway.desk))
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def restart(self):
        """End all processes' work and begin anew on the same data."""
        await self._stack.aclose()
        await self.__aenter__()

    async def team(self):
        """Make a team with one base of its own."""
        _, headers = await self.gateway.team(quota_per_minute=QUOTA)
        team = Team(headers)
        await self.make_base(team, 0)
        return team

    # --- steps, each of a team -----------------------------------------------------------------

    async def step(self, team, name, pick):
        """Take one step, counted."""
        self.steps[name] += 1
        with anyio.fail_after(BOUND_S):
            await getattr(self, name)(team, pick)

    async def make_base(self, team, pick):
        mark, agent = canary(), AGENTS[pick % 3]
        fields = {} if agent is None else {"agentId": agent}
        base_id = await self.gateway.base(team.headers, f"Base {mark}", **fields)
        team.bases.append(Base(base_id, agent, mark))
        self.bases.append(team.bases[-1])

    async def delete_base(self, team, pick):
        if len(team.live) > 1:
            base = team.live[pick % len(team.live)]
            answer = await self._http(team.headers, "DELETE", base)
            assert answer.status_code == 204, answer.text
            base.live = False

    async def rename_base(self, team, pick):
        if team.live:
            base = team.live[pick % len(team.live)]
            base.mark = canary()
            body = {"name": f"Base {base.mark}"}
            answer = await self._http(team.headers, "PATCH", base, json=body)
            assert CANARY.findall(answer.text) == [base.mark]

    async def put(self, team, pick):
        """Put a new document, a changed one, or the very text of another base's document."""
        if not team.live:
            return
        base = team.live[pick % len(team.live)]
        kept = list(base.documents.values())
        if kept and pick % 3 == 0:
            document = kept[pick % len(kept)]
        else:
            mark = canary()
            document = Document(f"doc {mark}", mark, "", set())
        others = [one for other in self.bases for one in other.documents.values() if one.text]
        if others and pick % 5 == 0:
            document.text = others[pick % len(others)].text
        else:
            document.text = f"The {COMMON} of {canary()} was good this year."
        # Before the answer: an index may be faster than it. The former version goes on answering.
        document.shown |= set(CANARY.findall(document.text))
        base.documents[document.external_id] = document
        answer = await self.gateway.put(team.headers, base.id, document.external_id, document.text)
        assert answer.status_code in {200, 202}, answer.text
        self._hold(base, answer.text)

    async def delete_document(self, team, pick):
        with_some = [base for base in team.live if base.documents]
        if with_some:
            base = with_some[pick % len(with_some)]
            document = list(base.documents.values())[pick % len(base.documents)]
            answer = await self._http(
                team.headers, "DELETE", base, f"/documents/{document.external_id}"
            )
            assert answer.status_code == 204, answer.text
            del base.documents[document.external_id]

    async def issue(self, team, pick):
        agent = AGENTS[pick % 3]
        bases = [base for base in team.live if base.agent in {None, agent}]
        if bases:
            fields = {"scopes": ["search", "documents"]} | ({"agentId": agent} if agent else {})
            token_id, headers = await self.gateway.token(
                team.headers, [base.id for base in bases], **fields
            )
            team.tokens.append(Token(token_id, headers, agent, bases))

    async def revoke(self, team, pick):
        good = [token for token in team.tokens if token.good]
        if good:
            token = good[pick % len(good)]
            if pick % 2:
                path = f"/session-tokens/{token.id}"
                await self.gateway.http.delete(path, headers=team.headers)
            else:
                await self._expire(token)
            token.good = False

    async def search(self, team, pick):
        """Search a base of the team's, or of anybody's, for what every document holds."""
        if not team.tokens:
            await self.issue(team, pick)
        if not team.tokens:
            return
        token = team.tokens[-1 - pick % len(team.tokens)]
        base = (token.bases if pick % 3 else self.bases)[
            pick // 3 % len(token.bases if pick % 3 else self.bases)
        ]
        mode = ("naive", "local", "global", "hybrid", "mix")[pick % 5]
        arguments = {"query": COMMON, "mode": mode, "topK": 200, "base": base.id}
        await self._tool(token, base, "knowledge_search", arguments)

    async def list_documents(self, team, pick):
        if team.tokens:
            token = team.tokens[-1 - pick % len(team.tokens)]
            base = self.bases[pick % len(self.bases)] if pick % 2 else token.bases[0]
            await self._tool(token, base, "knowledge_documents", {"base": base.id})

    async def look_around(self, team, pick):
        """List what the team has, then look at a base of anybody's."""
        listed = await self.gateway.http.get("/knowledge-bases", headers=team.headers)
        assert sorted(CANARY.findall(listed.text)) == sorted(base.mark for base in team.live)
        base = self.bases[pick % len(self.bases)]
        path = ("", "/documents", "/counts", "/usage", "/failures")[pick % 5]
        answer = await self._http(team.headers, "GET", base, path)
        if base in team.live:
            assert answer.status_code == 200
            self._hold(base, answer.text, base.mark)
        else:
            assert (answer.status_code, CANARY.findall(answer.text)) == (404, [])

    async def find(self, team, pick):
        """Wait until a document is indexed and find it: what is not shown is no empty promise."""
        with_some = [base for base in team.live if base.documents]
        if not with_some:
            return
        base = with_some[pick % len(with_some)]
        document = list(base.documents.values())[pick % len(base.documents)]
        path = f"/documents/{document.external_id}"
        while (await self._http(team.headers, "GET", base, path)).json()["status"] != "indexed":  # noqa: ASYNC110 - a worker tells nobody
            await asyncio.sleep(0.02)
        # Only the last version answers from now on.
        document.shown = set(CANARY.findall(document.text))
        fields = {} if base.agent is None else {"agentId": base.agent}
        _, headers = await self.gateway.token(team.headers, [base.id], **fields)
        [wanted] = document.shown
        arguments = {"query": wanted, "mode": "naive", "topK": 200}
        found = await self._call(headers, "knowledge_search", arguments)
        assert wanted in found.text
        self._hold(base, found.text)

    # --- what may be seen ------------------------------------------------------------------------

    async def _tool(self, token, base, tool, arguments):
        answer = await self._call(token.headers, tool, arguments)
        if not token.good:
            assert (answer.status_code, CANARY.findall(answer.text)) == (401, [])
        elif base.live and base in token.bases:
            assert not answer.json()["result"].get("isError"), answer.text
            self._hold(base, answer.text)
        else:
            assert answer.json()["result"]["_meta"]["dsh-lightrag/error"]["code"] == "not-found"
            assert CANARY.findall(answer.text) == []

    def _hold(self, base, text, *more):
        foreign = set(CANARY.findall(text)) - base.shown - set(more)
        assert not foreign, (base, foreign)
        ids = {other.id for other in self.bases if other is not base and other.id in text}
        assert not ids, (base, ids)

    async def _call(self, headers, tool, arguments):
        params = {"name": tool, "arguments": arguments}
        return await self.gateway.post_mcp(headers, "tools/call", params)

    async def _http(self, headers, method, base, path="", **body):
        return await self.gateway.http.request(
            method, f"/knowledge-bases/{base.id}{path}", headers=headers, **body
        )

    async def _expire(self, token):
        async with self.gateway.desk.database.sessions.begin() as session:
            await session.execute(
                update(SessionToken)
                .where(SessionToken.id == UUID(token.id))
                .values(expires_at=datetime.now(UTC) - timedelta(seconds=1))
            )


# How often each step comes, of all of them.
WEIGHTS = {
    "search": 8,
    "put": 6,
    "list_documents": 3,
    "look_around": 3,
    "issue": 2,
    "find": 1,
    "make_base": 2,
    "delete_document": 2,
    "revoke": 1,
    "rename_base": 1,
    "delete_base": 1,
}
NAMES = tuple(name for name, weight in WEIGHTS.items() for _ in range(weight))
