"""The gateway's parts, opened together and closed together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dsh_lightrag.gateway.database import Database
from dsh_lightrag.gateway.identity import Identities
from dsh_lightrag.gateway.knowledge import KnowledgeServer
from dsh_lightrag.gateway.search import Searcher

if TYPE_CHECKING:
    from dsh_lightrag.settings import LightRagSettings


@dataclass(frozen=True, slots=True)
class Desk:
    """What answers requests; an orchestrator in process holds one too.

    Attributes:
        database: where everything is kept.
        server: the knowledge server behind.
        identities: who calls.
        searcher: asks bases.
        settings: how the knowledge server is reached, and how long a text may be.
    """

    database: Database
    server: KnowledgeServer
    identities: Identities
    searcher: Searcher
    settings: LightRagSettings

    @classmethod
    def open(cls, database_url: str, settings: LightRagSettings) -> Self:
        """Open the parts; nothing is connected to yet.

        Raises:
            ConfigurationError: the database's URL is none.
        """
        database = Database(database_url)
        server = KnowledgeServer(settings)
        return cls(
            database=database,
            server=server,
            identities=Identities(database.sessions),
            searcher=Searcher(database.sessions, server),
            settings=settings,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.server.close()
        await self.database.close()
