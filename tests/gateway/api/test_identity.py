"""Keys of teams and tokens of workers, against a real database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import select, update

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.bases import create_base, delete_base
from dsh_lightrag.gateway.caller import Scope
from dsh_lightrag.gateway.identity import Identities
from dsh_lightrag.gateway.tables import ApiKey, KeyUsage, SessionToken


@pytest.fixture
def identities(database):
    """Who calls."""
    return Identities(database.sessions)


async def code_of(awaitable):
    with pytest.raises(LightRagError) as caught:
        await awaitable
    return caught.value.code


async def make_base(database, team_id, agent_id=None):
    async with database.sessions.begin() as session:
        return (await create_base(session, team_id, "b", agent_id=agent_id)).id


async def test_a_key_proves_its_team_and_is_stored_as_a_digest_alone(
    identities, team_id, migrated_url
):
    issued = await identities.create_key(team_id, "laptop", ["search", "documents"])
    caller = await identities.verify(f"Bearer {issued.text}")
    assert (caller.team_id, caller.key_id) == (team_id, issued.id)
    assert caller.scopes == {Scope.SEARCH, Scope.DOCUMENTS}
    assert caller.token_id is caller.agent_id is None
    assert len(issued.text.removeprefix("dshk_")) == 43  # 256 bits
    with psycopg.connect(migrated_url) as connection:
        row = str(connection.execute("SELECT * FROM gateway_api_key").fetchone())
    assert issued.text not in row
    assert issued.text.removeprefix("dshk_") not in row


async def test_no_two_secrets_are_alike(identities, team_id):
    issued = [await identities.create_key(team_id, "k") for _ in range(20)]
    assert len({one.text for one in issued}) == 20


@pytest.mark.parametrize(
    "spelled",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "{key}",
        "Basic {key}",
        "Bearer {key}x",
        "Bearer  {key} ",
        "Bearer {key},{key}",
        "Bearer dshk_",
        "Bearer dsht_{rest}",
        "Bearer dshk_{other}",
        "Bearer \u00fc",
        "Bearer dshk_{rest}\n",
    ],
)
async def test_what_is_no_key_of_ours_proves_nothing(identities, team_id, spelled):
    key = (await identities.create_key(team_id, "k")).text
    if spelled is not None:
        spelled = spelled.format(key=key, rest=key[5:], other="A" * 43)
    assert await code_of(identities.verify(spelled)) is Code.UNAUTHORIZED


async def test_the_scheme_is_read_in_any_case(identities, team_id):
    key = (await identities.create_key(team_id, "k")).text
    assert (await identities.verify(f"bEaReR {key}")).team_id == team_id


async def test_a_revoked_team_has_no_key_and_no_token_left_and_other_teams_keep_theirs(
    identities, database, team_id
):
    keys = [await identities.create_key(team_id, name) for name in ("k", "l")]
    caller = await identities.verify(f"Bearer {keys[0].text}")
    token = await issue(identities, caller, [await make_base(database, team_id)])
    others = await identities.create_key(await identities.create_team("others"), "k")
    await identities.revoke_team(team_id)
    for secret in (*(key.text for key in keys), token.text):
        assert await code_of(identities.verify(f"Bearer {secret}")) is Code.UNAUTHORIZED
    assert (await identities.verify(f"Bearer {others.text}")).team_id != team_id


async def test_a_revoked_key_and_its_tokens_prove_nothing_at_once(identities, database, team_id):
    key = await identities.create_key(team_id, "k")
    caller = await identities.verify(f"Bearer {key.text}")
    base_id = await make_base(database, team_id)
    token = await issue(identities, caller, [base_id])
    assert (await identities.verify(f"Bearer {token.text}")).token_id == token.id
    await identities.revoke_key(key.id)
    await identities.revoke_key(key.id)
    for secret in (key.text, token.text):
        assert await code_of(identities.verify(f"Bearer {secret}")) is Code.UNAUTHORIZED
    assert await code_of(identities.revoke_key(uuid4())) is Code.NOT_FOUND


@pytest.mark.usefixtures("within_a_minute")
async def test_the_quota_ends_with_a_wait_and_comes_back_with_the_next_minute(
    identities, database, team_id
):
    key = await identities.create_key(team_id, "k", quota_per_minute=3)
    for _ in range(3):
        await identities.verify(f"Bearer {key.text}")
    with pytest.raises(LightRagError) as caught:
        await identities.verify(f"Bearer {key.text}")
    assert caught.value.code is Code.RATE_LIMITED
    assert 1 <= caught.value.retry_after_s <= 60
    async with database.sessions.begin() as session:  # a minute goes by
        await session.execute(update(KeyUsage).values(minute=KeyUsage.minute - timedelta(hours=2)))
    await identities.verify(f"Bearer {key.text}")
    async with database.sessions() as session:  # and what is over is not kept for ever
        assert len((await session.scalars(select(KeyUsage))).all()) == 1


@pytest.mark.usefixtures("within_a_minute")
async def test_tokens_count_towards_the_quota_of_their_key(identities, database, team_id):
    key = await identities.create_key(team_id, "k", quota_per_minute=3)
    caller = await identities.verify(f"Bearer {key.text}")
    token = await issue(identities, caller, [await make_base(database, team_id)])
    await identities.verify(f"Bearer {token.text}")
    await identities.verify(f"Bearer {token.text}")
    assert await code_of(identities.verify(f"Bearer {token.text}")) is Code.RATE_LIMITED
    assert await code_of(identities.verify(f"Bearer {key.text}")) is Code.RATE_LIMITED


async def test_the_last_use_of_a_key_is_kept(identities, database, team_id):
    key = await identities.create_key(team_id, "k")
    await identities.verify(f"Bearer {key.text}")
    async with database.sessions() as session:
        row = await session.get(ApiKey, key.id)
    assert datetime.now(UTC) - row.last_used_at < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("scopes", "quota"), [([], 1), (["search", "all"], 1), (["search"], 0), (["SEARCH"], 1)]
)
async def test_a_key_without_real_scopes_or_quota_is_refused(identities, team_id, scopes, quota):
    made = identities.create_key(team_id, "k", scopes, quota)
    assert await code_of(made) is Code.INVALID_ARGUMENT


async def test_a_second_team_of_a_name_is_refused(identities):
    team_id = await identities.create_team("one")
    assert await code_of(identities.create_team("one")) is Code.CONFLICT
    assert (await identities.team_named("one")).id == team_id
    assert await code_of(identities.team_named("two")) is Code.NOT_FOUND
    assert [team.name for team in await identities.teams()] == ["one"]


@pytest.mark.parametrize("name", ["", " one", "o\x00ne", "o\nne", "x" * 201, "\u202eone"])
async def test_a_name_that_does_not_read_as_it_is_is_refused(identities, team_id, name):
    assert await code_of(identities.create_team(name)) is Code.INVALID_ARGUMENT
    assert await code_of(identities.create_key(team_id, name)) is Code.INVALID_ARGUMENT


# --- tokens -----------------------------------------------------------------------------------


async def issue(identities, caller, base_ids, **fields):
    given = {"agent_id": None, "session_id": "s-1", "seconds": 600, "scopes": ["search"]}
    return await identities.issue_token(caller, base_ids=base_ids, **given | fields)


@pytest.fixture
async def caller(identities, team_id):
    """A key of the team with every scope."""
    key = await identities.create_key(team_id, "k")
    return await identities.verify(f"Bearer {key.text}")


async def test_a_token_is_bound_to_team_agent_bases_session_and_scopes(
    identities, database, team_id, caller
):
    base_id = await make_base(database, team_id, "agent-1")
    issued = await issue(
        identities, caller, [base_id], agent_id="agent-1", scopes=["search", "documents"]
    )
    worker = await identities.verify(f"Bearer {issued.text}")
    assert worker.token_id == issued.id
    assert (worker.team_id, worker.agent_id, worker.session_id) == (team_id, "agent-1", "s-1")
    assert worker.base_ids == {base_id}
    assert worker.scopes == {Scope.SEARCH, Scope.DOCUMENTS}


async def test_a_token_expires_by_the_clock_of_the_database(identities, database, team_id, caller):
    issued = await issue(identities, caller, [await make_base(database, team_id)], seconds=600)
    async with database.sessions() as session:
        token = await session.get(SessionToken, issued.id)
    assert token.expires_at - token.created_at == timedelta(seconds=600)
    assert issued.expires_at == token.expires_at


async def test_an_expired_or_revoked_token_proves_nothing(identities, database, team_id, caller):
    base_id = await make_base(database, team_id)
    old, revoked = [await issue(identities, caller, [base_id]) for _ in range(2)]
    await identities.revoke_token(caller, revoked.id)
    await identities.revoke_token(caller, revoked.id)
    async with database.sessions.begin() as session:
        await session.execute(
            update(SessionToken)
            .where(SessionToken.id == old.id)
            .values(expires_at=datetime.now(UTC) - timedelta(seconds=1))
        )
    for token in (old, revoked):
        assert await code_of(identities.verify(f"Bearer {token.text}")) is Code.UNAUTHORIZED


async def test_a_token_names_only_bases_that_answer_its_agent(
    identities, database, team_id, caller
):
    shared = await make_base(database, team_id)
    own = await make_base(database, team_id, "agent-1")
    others = await make_base(database, team_id, "agent-2")
    foreign = await make_base(database, await identities.create_team("other"))
    gone = await make_base(database, team_id)
    async with database.sessions.begin() as session:
        await delete_base(session, team_id, gone)
    await issue(identities, caller, [shared, own], agent_id="agent-1")
    for wrong in (others, foreign, gone, uuid4()):
        made = issue(identities, caller, [shared, wrong], agent_id="agent-1")
        assert await code_of(made) is Code.NOT_FOUND
    assert await code_of(issue(identities, caller, [own])) is Code.NOT_FOUND


async def test_a_token_can_do_no_more_than_its_key(identities, database, team_id, caller):
    base_id = await make_base(database, team_id)
    for scopes in (["manage"], ["ingest"], [], ["search", "manage"]):
        made = issue(identities, caller, [base_id], scopes=scopes)
        assert await code_of(made) is Code.INVALID_ARGUMENT
    narrow = await identities.create_key(team_id, "n", ["manage", "search"])
    narrow = await identities.verify(f"Bearer {narrow.text}")
    made = issue(identities, narrow, [base_id], scopes=["documents"])
    assert await code_of(made) is Code.FORBIDDEN
    reader = await identities.create_key(team_id, "r", ["search"])
    reader = await identities.verify(f"Bearer {reader.text}")
    assert await code_of(issue(identities, reader, [base_id])) is Code.FORBIDDEN
    worker = await issue(identities, caller, [base_id])
    worker = await identities.verify(f"Bearer {worker.text}")
    assert await code_of(issue(identities, worker, [base_id])) is Code.FORBIDDEN
    assert await code_of(identities.revoke_token(worker, worker.token_id)) is Code.FORBIDDEN
    with pytest.raises(LightRagError):
        worker.acting_for("agent-2")


@pytest.mark.parametrize("seconds", [0, 59, 86_401, -5])
async def test_a_token_lives_neither_too_short_nor_too_long(
    identities, database, team_id, caller, seconds
):
    made = issue(identities, caller, [await make_base(database, team_id)], seconds=seconds)
    assert await code_of(made) is Code.INVALID_ARGUMENT


async def test_a_token_names_at_least_one_base(identities, caller):
    assert await code_of(issue(identities, caller, [])) is Code.INVALID_ARGUMENT


async def test_a_team_revokes_no_other_teams_token(identities, database, team_id, caller):
    issued = await issue(identities, caller, [await make_base(database, team_id)])
    other = await identities.create_key(await identities.create_team("other"), "k")
    other = await identities.verify(f"Bearer {other.text}")
    assert await code_of(identities.revoke_token(other, issued.id)) is Code.NOT_FOUND
    assert (await identities.verify(f"Bearer {issued.text}")).token_id == issued.id
