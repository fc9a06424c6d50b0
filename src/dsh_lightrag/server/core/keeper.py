"""Makes, opens and drops the workspaces of LightRAG's core."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.server.backend import (
    BackendError,
    WorkspaceBrokenError,
    WorkspaceUnknownError,
)
from dsh_lightrag.server.core import environment
from dsh_lightrag.server.core.folders import Folders
from dsh_lightrag.server.core.gate import Gate
from dsh_lightrag.server.core.models import Models
from dsh_lightrag.server.core.registry import NAME, Entry
from dsh_lightrag.server.core.settings import database_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_lightrag.server.backend import Backend
    from dsh_lightrag.server.core.registry import Registry
    from dsh_lightrag.server.core.settings import CoreSettings


def keeper_of(settings: CoreSettings) -> CoreKeeper:
    """Build the keeper of this process; it connects and makes its folder at its first use.

    Imports LightRAG, which takes a second. Until the keeper is closed, the settings stand in the
    process's environment (`environment.py`).

    Raises:
        ConfigurationError: a `*_WORKSPACE` variable is set, the database URL cannot be used, or
            this process has a keeper already.
        MissingExtraError: LightRAG or, for PostgreSQL, its driver is not installed.
    """
    environment.enter(settings)
    try:
        # The driver first: without it LightRAG would run pip.
        registry = _registry_of(settings)
        with needs_extra("lightrag", "LightRAG's core"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its imports deprecate is not ours to mend
            from dsh_lightrag.server.core import inside  # noqa: PLC0415 - imports LightRAG
        inside.route_logging()
        inside.start_afresh()
        encoding = inside.tokenizer()
    except BaseException:  # nothing of a keeper that was not built stays behind
        environment.leave()
        raise
    models = Models(
        chat=settings.chat,
        embedding=settings.embedding,
        chat_gate=Gate(settings.chat_calls),
        embedding_gate=Gate(settings.embedding_calls),
        count=lambda text: len(encoding.encode(text)),
    )
    return CoreKeeper(settings, registry, models)


def _registry_of(settings: CoreSettings) -> Registry:
    if not settings.database_url:
        return Folders(settings.folder)
    with needs_extra("postgres", "LightRAG's core on PostgreSQL"):
        import pgvector  # noqa: F401, PLC0415 - LightRAG would install it with pip

        from dsh_lightrag.server.core.tables import Tables  # noqa: PLC0415 - imports asyncpg
    return Tables(settings.database_url, database_variables(settings.database_url))


class CoreKeeper:
    """The keeper of kind `lightrag`; made by `keeper_of`, one per process, on one event loop."""

    kind = "lightrag"
    answers = True  # LightRAG indexes nothing without a chat model

    def __init__(self, settings: CoreSettings, registry: Registry, models: Models) -> None:
        self._settings = settings
        self._registry = registry
        self._models = models
        self._starting = asyncio.Lock()
        self._started = False
        self._client: Any = None

    def configuration(self) -> Mapping[str, object]:
        """Return the models' names and LightRAG's storages."""
        on_files = not self._settings.database_url
        return {
            "llm_model": self._models.chat.name,
            "embedding_model": self._models.embedding.name,
            "embedding_dimensions": self._models.embedding.dimensions,
            "storage": "files" if on_files else "postgresql",
            "graph_storage": "NetworkXStorage" if on_files else self._settings.graph.value,
            "max_async": self._settings.chat_calls,
        }

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        return await (await self._ready()).names()

    async def exists(self, workspace: str) -> bool:
        """Tell whether there is such a workspace, without opening it."""
        return await self._entry(workspace) is not None

    async def create(self, workspace: str) -> bool:
        """Make an empty workspace.

        Raises:
            BackendError: the name is none that every storage keeps apart from all others.
        """
        registry = await self._ready()
        if not NAME.fullmatch(workspace):
            raise BackendError(
                f"{workspace!r} cannot name a workspace.",
                "Use a small letter, then up to 40 small letters, digits and underscores.",
            )
        models = self._models
        return await registry.add(
            workspace, Entry(models.embedding.name, models.embedding.dimensions)
        )

    async def open(self, workspace: str) -> Backend:
        """Open a workspace and go on with what was unfinished in it."""
        registry = await self._ready()
        entry = await self._known(workspace)
        await registry.hold(workspace)
        try:
            entry = await self._known(workspace)  # it may have been dropped until it was held
            return await self._opened(workspace, entry)
        except BaseException:  # whatever happened, the workspace is not open
            await registry.release(workspace)
            raise

    async def _opened(self, workspace: str, entry: Entry) -> Backend:
        from dsh_lightrag.server.core import inside  # noqa: PLC0415 - imports LightRAG
        from dsh_lightrag.server.core.backend import CoreBackend  # noqa: PLC0415 - as above

        embedding = self._models.embedding
        if (entry.embedding, entry.dimensions) != (embedding.name, embedding.dimensions):
            raise WorkspaceBrokenError(
                f"The workspace {workspace!r} has vectors of {entry.embedding!r} "
                f"({entry.dimensions} numbers each), not of {embedding.name!r}.",
                "Configure that model, or make a new workspace and insert the documents again.",
            )
        core = inside.new_core(workspace, self._settings, self._models)
        backend = CoreBackend(workspace, core, self._registry)
        try:
            await backend.start(entry.deleting)
        except Exception as error:  # LightRAG raises whatever its storages raise
            await inside.forget(workspace)
            raise WorkspaceBrokenError(
                f"The workspace {workspace!r} cannot be opened ({type(error).__name__}).",
                "Look at the server's log; the workspace was left as it is.",
            ) from error
        return backend

    async def drop(self, workspace: str) -> bool:
        """Remove a closed workspace without residue; False when there was none."""
        registry = await self._ready()
        if await self._entry(workspace) is None:
            return False
        await registry.hold(workspace)
        try:
            return await registry.remove(workspace)
        finally:
            await registry.release(workspace)

    async def close(self) -> None:
        """Let go of the database and of the process's environment."""
        from dsh_lightrag.server.core import inside  # noqa: PLC0415 - imports LightRAG

        try:
            if self._client is not None:
                await inside.disconnect(self._client)
            await self._registry.close()
        finally:
            environment.leave()

    async def _entry(self, workspace: str) -> Entry | None:
        registry = await self._ready()
        return await registry.find(workspace) if NAME.fullmatch(workspace) else None

    async def _known(self, workspace: str) -> Entry:
        entry = await self._entry(workspace)
        if entry is None:
            raise WorkspaceUnknownError(f"There is no workspace {workspace!r}.", "Create it first.")
        return entry

    async def _ready(self) -> Registry:
        """Return the registry, started once."""
        from dsh_lightrag.server.core import inside  # noqa: PLC0415 - imports LightRAG

        async with self._starting:
            if not self._started:
                await self._registry.start()
                if self._settings.database_url:
                    self._client = await inside.connect()
                self._started = True
        return self._registry
