"""A gateway over a real database and a real knowledge server, all of them listening.

Those of a module share one: teams keep their tests apart, which is what a team is for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import gateway_support
import psycopg
import pytest

from dsh_lightrag.gateway import identity


@pytest.fixture(scope="module")
def shared_url(postgres, migrated_template):
    """The address of a migrated database of a module's own."""
    name = f"gateway_{uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
    yield postgres.url(name)
    postgres.drop_database(postgres.url(name))


@pytest.fixture(scope="module")
async def knowledge(tmp_path_factory):
    """A knowledge server of a module's own; settings to reach it with."""
    folder = tmp_path_factory.mktemp("knowledge")
    async with gateway_support.knowledge_server(folder) as settings:
        yield settings


@pytest.fixture(scope="module")
async def gateway(shared_url, knowledge):
    """A gateway that listens."""
    async with gateway_support.gateway(shared_url, knowledge) as running:
        yield running


@pytest.fixture
def within_a_minute(monkeypatch):
    """No minute ends amid a test that counts requests: the clock of quotas stands still."""
    began = datetime.now(UTC)

    class Still(datetime):
        @classmethod
        def now(cls, tz=None):
            return began.astimezone(tz)

    monkeypatch.setattr(identity, "datetime", Still)
