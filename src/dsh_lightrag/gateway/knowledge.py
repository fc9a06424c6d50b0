"""The knowledge server by its URL: the workspaces of bases and what is filed in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dsh_lightrag import wire
from dsh_lightrag.budget import Budget
from dsh_lightrag.client import LightRagClient
from dsh_lightrag.errors import Code, ConfigurationError, LightRagError
from dsh_lightrag.transport import Transport
from dsh_lightrag.transport.pool import open_pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dsh_lightrag.settings import LightRagSettings
    from dsh_lightrag.transport.pool import Pool

PAGE_SIZE = wire.PAGE_SIZES[1]


class KnowledgeServer:
    """The one knowledge server behind the gateway: a shared pool, a client per workspace and call.

    Used on one event loop; whoever opens it closes it. Every call that names a workspace first
    sees that the server isolates them.

    Raises (all methods that ask):
        LightRagError: as the client.
    """

    def __init__(self, settings: LightRagSettings, inner: Pool | None = None) -> None:
        self._settings = settings
        self._pool = inner or open_pool(settings.connection)

    def client(self, workspace: str = "") -> LightRagClient:
        """Return a client for one call; without a workspace only for what needs none."""
        connection = replace(self._settings.connection, workspace=workspace)
        transport = Transport(connection, inner=self._pool)
        return LightRagClient(transport, Budget.start(self._settings.timeout_ms))

    async def check(self) -> None:
        """See that the server is there and isolates workspaces.

        Raises:
            ConfigurationError: it does not isolate them.
        """
        if not (await self.client().health()).workspace_isolation:
            raise ConfigurationError(
                "--server-url",
                "names a server that does not isolate workspaces. A stock LightRAG server ignores "
                "the workspace that is asked for, and would answer one team from another's base.",
                "Name a server that `dsh-lightrag serve` runs.",
            )

    async def make(self, workspace: str) -> None:
        """Make a workspace, if it is not there."""
        await self.client().make_workspace(workspace)

    async def drop(self, workspace: str) -> None:
        """Remove a workspace with all it holds, if it is there."""
        await self.client().drop_workspace(workspace)

    async def file(self, workspace: str, file_name: str, text: str) -> str:
        """File a text, in a workspace that is made if need be; return the insertion's id."""
        request = wire.InsertRequest(text=text, file_source=file_name)
        try:
            accepted = await self.client(workspace).insert(request)
        except LightRagError as error:
            if error.code is not Code.NOT_FOUND:
                raise
            await self.make(workspace)
            accepted = await self.client(workspace).insert(request)
        return accepted.track_id or ""

    async def look(self, workspace: str, file_name: str, track_id: str) -> wire.Document | None:
        """Return what became of a text, by its insertion's id or else by looking for its name."""
        if not track_id:
            return await self._find(workspace, file_name)
        documents = (await self.client(workspace).tracked(track_id)).documents
        return next((one for one in documents if one.file_path == file_name), None)

    async def remove(self, workspace: str, ids: Sequence[str]) -> None:
        """Begin to delete documents by the server's ids; those that are gone are no error."""
        try:
            await self.client(workspace).delete(wire.DeleteRequest(doc_ids=list(ids)))
        except LightRagError as error:
            if error.code is not Code.NOT_FOUND:
                raise

    async def documents(self, workspace: str) -> AsyncIterator[wire.Document]:
        """Yield every document, newest first; none of a workspace that is not there."""
        page, more = 1, True
        while more:
            request = wire.DocumentsRequest(page=page, page_size=PAGE_SIZE)
            try:
                reply = await self.client(workspace).documents(request)
            except LightRagError as error:
                if error.code is Code.NOT_FOUND:
                    return
                raise
            for document in reply.documents:
                yield document
            page, more = page + 1, bool(reply.pagination.has_next and reply.documents)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _find(self, workspace: str, file_name: str) -> wire.Document | None:
        async for document in self.documents(workspace):
            if document.file_path == file_name:
                return document
        return None
