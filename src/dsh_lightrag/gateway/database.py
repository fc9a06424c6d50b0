"""The gateway's database: engine and sessions of a URL, and the walk to the newest shape."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

from dsh_lightrag.errors import ConfigurationError, needs_extra

with needs_extra("gateway", "the gateway"):
    from sqlalchemy import URL, create_engine, make_url, text
    from sqlalchemy.exc import ArgumentError, OperationalError
    from sqlalchemy.ext.asyncio import (
        AsyncEngine,
        AsyncSession,
        async_sessionmaker,
        create_async_engine,
    )


DRIVER = "postgresql+psycopg"
# Seconds a connection may take; a database that is down must not look like a slow one.
CONNECT_S = 10
# Any constant of ours: two processes that start at once migrate one after the other.
_MIGRATION_LOCK = 0x6473685F6B62


class Database:
    """An engine and its sessions. Whoever opens it closes it.

    Raises:
        ConfigurationError: the URL is no PostgreSQL URL; the text never repeats it.
    """

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.engine: AsyncEngine = create_async_engine(
            self.url,
            pool_size=10,
            max_overflow=20,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={"connect_timeout": CONNECT_S},
        )
        self.sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(
            self.engine, expire_on_commit=False
        )

    @property
    def conninfo(self) -> str:
        """The same database as libpq spells it, for psycopg's own connections."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    async def migrate(self) -> None:
        """Bring the database to the newest shape, the queue's tables included; idempotent.

        Raises:
            ConfigurationError: it does not answer, or may not be changed.
        """
        await asyncio.to_thread(migrate, self.url)

    async def is_current(self) -> bool:
        """Tell whether every migration has run; raises SQLAlchemyError when it does not answer."""
        head = await asyncio.to_thread(_head)
        async with self.engine.connect() as connection:
            table = await connection.scalar(text("SELECT to_regclass('alembic_version')"))
            if table is None:
                return False
            version: str | None = await connection.scalar(
                text("SELECT version_num FROM alembic_version")
            )
        return head is not None and version == head

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()


def parse_url(url: str) -> URL:
    """Return a PostgreSQL URL as SQLAlchemy's, with psycopg as its driver.

    Raises:
        ConfigurationError: it is none; the text never repeats it, it may hold a password.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise ConfigurationError(
            "database-url", "is no PostgreSQL URL.", "Write postgresql://user:password@host/name."
        ) from None
    return parsed.set(drivername=DRIVER)


@functools.cache  # it walks the folder of the migrations
def _head() -> str | None:
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as in migrate

    return ScriptDirectory(str(Path(__file__).parent / "migrations")).get_current_head()


def migrate(url: URL) -> None:
    """Walk the steps that the database has not taken; blocks, so call it from a thread.

    Raises:
        ConfigurationError: the database does not answer, or refuses.
    """
    # Alembic takes half a second to import and only this needs it.
    from alembic import command  # noqa: PLC0415 - as above
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", "dsh_lightrag.gateway:migrations")
    engine = create_engine(url, hide_parameters=True, connect_args={"connect_timeout": CONNECT_S})
    try:
        with engine.begin() as connection:
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
            )
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except OperationalError as error:
        reason = str(error.orig).strip().partition("\n")[0]
        raise ConfigurationError(
            "database-url", f"does not work: {reason}.", "Check that the database runs."
        ) from None  # the chain would show the statement
    finally:
        engine.dispose()
