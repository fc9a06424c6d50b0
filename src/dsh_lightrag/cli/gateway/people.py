"""`gateway team` and `gateway key`: who may use the gateway; by whoever reaches its database."""

from __future__ import annotations

import asyncio
import uuid  # noqa: TC003 - Typer reads annotations when it runs
from pathlib import Path  # noqa: TC003 - as above
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dsh_lightrag.cli.gateway.flags import DatabaseUrlEnv, database_url
from dsh_lightrag.cli.hosting.flags import DataFlag  # noqa: TC001 - as above
from dsh_lightrag.cli.terminal import complain, write_json, write_line
from dsh_lightrag.errors import needs_extra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dsh_lightrag.gateway.identity import Identities

T = TypeVar("T")
Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")]
Team = Annotated[str, typer.Option(metavar="NAME", help="The team's name.")]


def create_team(
    name: Name, *, data: DataFlag = None, database_url_env: DatabaseUrlEnv = None
) -> int:
    """Make a team; prints its id."""
    team_id = _with_identities(
        data, database_url_env, lambda identities: identities.create_team(name)
    )
    write_line(str(team_id))
    return 0


def list_teams(*, data: DataFlag = None, database_url_env: DatabaseUrlEnv = None) -> int:
    """List the teams as JSON."""
    teams = _with_identities(data, database_url_env, lambda identities: identities.teams())
    write_json(
        [
            {"id": str(team.id), "name": team.name, "createdAt": team.created_at.isoformat()}
            for team in teams
        ]
    )
    return 0


def revoke_team(
    name: Name, *, data: DataFlag = None, database_url_env: DatabaseUrlEnv = None
) -> int:
    """Revoke every key of a team and every token that they issued; its bases stay."""

    async def revoke(identities: Identities) -> None:
        await identities.revoke_team((await identities.team_named(name)).id)

    _with_identities(data, database_url_env, revoke)
    return 0


def create_key(  # noqa: PLR0913 - one per flag
    name: Name,
    *,
    team: Team,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="search, documents, ingest or manage; repeat it. All of them if absent."),
    ] = None,
    quota_per_minute: Annotated[
        int, typer.Option(min=1, help="Most requests in a minute, its tokens' included.")
    ] = 600,
    data: DataFlag = None,
    database_url_env: DatabaseUrlEnv = None,
) -> int:
    """Issue a key of a team; prints it, this once."""

    async def issue(identities: Identities) -> tuple[uuid.UUID, str]:
        from dsh_lightrag.gateway.caller import ALL_SCOPES  # noqa: PLC0415 - the extra

        found = await identities.team_named(team)
        issued = await identities.create_key(found.id, name, scope or ALL_SCOPES, quota_per_minute)
        return issued.id, issued.text

    key_id, text = _with_identities(data, database_url_env, issue)
    complain(f"Key {key_id}: keep it, it is not shown again.")
    write_line(text)
    return 0


def list_keys(*, team: Team, data: DataFlag = None, database_url_env: DatabaseUrlEnv = None) -> int:
    """List a team's keys as JSON, without the keys themselves."""

    async def listed(identities: Identities) -> list[dict[str, Any]]:
        found = await identities.team_named(team)
        return [
            {
                "id": str(key.id),
                "name": key.name,
                "scopes": key.scopes,
                "quotaPerMinute": key.quota_per_minute,
                "createdAt": key.created_at.isoformat(),
                "lastUsedAt": key.last_used_at.isoformat() if key.last_used_at else None,
                "revokedAt": key.revoked_at.isoformat() if key.revoked_at else None,
            }
            for key in await identities.keys(found.id)
        ]

    write_json(_with_identities(data, database_url_env, listed))
    return 0


def revoke_key(
    key_id: Annotated[uuid.UUID, typer.Argument(metavar="ID", help="The key's id.")],
    *,
    data: DataFlag = None,
    database_url_env: DatabaseUrlEnv = None,
) -> int:
    """Revoke a key and every token that it issued, at once."""
    _with_identities(data, database_url_env, lambda identities: identities.revoke_key(key_id))
    return 0


TEAM_COMMANDS: dict[str, Callable[..., int]] = {
    "create": create_team,
    "list": list_teams,
    "revoke": revoke_team,
}
KEY_COMMANDS: dict[str, Callable[..., int]] = {
    "create": create_key,
    "list": list_keys,
    "revoke": revoke_key,
}


def _with_identities(
    data: Path | None, variable: str | None, work: Callable[[Identities], Awaitable[T]]
) -> T:
    """Open the database, do one thing and close it.

    Raises:
        ConfigurationError: there is no database to be reached.
    """
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway.database import Database  # noqa: PLC0415 - the extra
        from dsh_lightrag.gateway.identity import Identities  # noqa: PLC0415 - as above
    url = database_url(variable, data)

    async def run() -> T:
        database = Database(url)
        try:
            return await work(Identities(database.sessions))
        finally:
            await database.close()

    return asyncio.run(run())
