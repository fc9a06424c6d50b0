"""A migrated database of a test's own, and a team in it."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from dsh_lightrag.gateway.database import Database, migrate, parse_url
from dsh_lightrag.gateway.tables import Team


@pytest.fixture(scope="session")
def migrated_template(postgres):
    """The name of a migrated, empty database: a copy of it is made ten times faster."""
    url = postgres.new_database("template")
    migrate(parse_url(url))
    return psycopg.conninfo.conninfo_to_dict(url)["dbname"]


@pytest.fixture
def migrated_url(postgres, migrated_template):
    """The address of a migrated database of a test's own."""
    name = f"gateway_{uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
    yield postgres.url(name)
    postgres.drop_database(postgres.url(name))


@pytest.fixture
async def database(migrated_url):
    """An open database in the newest shape."""
    database = Database(migrated_url)
    yield database
    await database.close()


@pytest.fixture
async def team_id(database):
    """A team to own bases."""
    async with database.sessions.begin() as session:
        team = Team(name="archive")
        session.add(team)
    return team.id
