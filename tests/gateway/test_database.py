"""Migrations and addresses, on a real PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.gateway.database import Database, parse_url
from dsh_lightrag.gateway.tables import Table

OURS = {table.name for table in Table.metadata.sorted_tables}


async def test_the_migrations_lead_to_the_very_tables_of_the_source(migrated_url):
    engine = create_engine(parse_url(migrated_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"include_name": lambda name, kind, _: kind != "table" or name in OURS},
        )
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()


async def test_processes_that_start_at_once_migrate_one_after_the_other(database_url):
    several = [Database(database_url) for _ in range(3)]
    await asyncio.gather(*(database.migrate() for database in several))
    for database in several:
        assert await database.is_current()
        await database.close()


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://u:secret@h/d", "http://h:secret@x"])
def test_what_is_no_postgresql_url_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigurationError) as raised:
        Database(url)
    assert raised.value.key == "database-url"
    assert "secret" not in str(raised.value)


async def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path):
    database = Database(f"postgresql://me:secret@/db?host={tmp_path}")
    with pytest.raises(ConfigurationError) as raised:
        await database.migrate()
    assert "secret" not in str(raised.value)
    await database.close()
