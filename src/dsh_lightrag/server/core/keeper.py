"""Makes, opens and drops the workspaces of LightRAG's core."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import needs_extra
from dsh_lightrag.server.backend import WorkspaceBrokenError, WorkspaceUnknownError
from dsh_lightrag.server.core import environment
from dsh_lightrag.server.core.folders import Folders
from dsh_lightrag.server.core.models import Models
from dsh_lightrag.server.core.registry import Entry
from dsh_lightrag.server.core.settings import database_variables
from dsh_lightrag.server.embedded.embedding import LOCAL, LocalEmbedder
from dsh_lightrag.server.endpoint import Endpoint
from dsh_lightrag.server.models import EmbeddingEndpoint
from dsh_lightrag.server.workspaces import checked_name, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsh_lightrag.server.backend import Backend
    from dsh_lightrag.server.core.registry import Registry
    from dsh_lightrag.server.core.settings import CoreSettings

_LOCAL_CALLS = 2  # one for questions and one for documents; more would share the same cores


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
        models = _models_of(settings, lambda text: len(encoding.encode(text)))
    except BaseException:  # nothing of a keeper that was not built stays behind
        environment.leave()
        raise
    return CoreKeeper(settings, registry, models)


def _registry_of(settings: CoreSettings) -> Registry:
    if not settings.database_url:
        return Folders(settings.folder)
    with needs_extra("postgres", "LightRAG's core on PostgreSQL"):
        import pgvector  # noqa: F401, PLC0415 - LightRAG would install it with pip

        from dsh_lightrag.server.core.tables import Tables  # noqa: PLC0415 - imports asyncpg
    variables = database_variables(settings.database_url)
    return Tables(settings.database_url, variables, settings.graph)


def _models_of(settings: CoreSettings, count: Callable[[str], int]) -> Models:
    wanted = settings.embedder
    if isinstance(wanted, Endpoint):
        return Models(
            settings.chat,
            EmbeddingEndpoint(wanted),
            embedding_calls=wanted.concurrency,
            count=count,
        )
    local = LocalEmbedder(LOCAL[wanted])
    return Models(settings.chat, local, embedding_calls=_LOCAL_CALLS, count=count)


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
        """Return what may be told of models and storages, under LightRAG's names."""
        embedder = self._settings.embedder
        on_files = not self._settings.database_url
        return {
            "llm_binding": "openai",
            "llm_model": self._settings.chat.model,
            "embedding_binding": embedder if isinstance(embedder, str) else "openai",
            "embedding_model": LOCAL[embedder].identity
            if isinstance(embedder, str)
            else embedder.model,
            "kv_storage": "JsonKVStorage" if on_files else "PGKVStorage",
            "doc_status_storage": "JsonDocStatusStorage" if on_files else "PGDocStatusStorage",
            "graph_storage": "NetworkXStorage" if on_files else self._settings.graph.value,
            "vector_storage": "NanoVectorDBStorage" if on_files else "PGVectorStorage",
        }

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        return await (await self._ready()).names()

    async def exists(self, workspace: str) -> bool:
        """Tell whether there is such a workspace, without opening it."""
        return await self._entry(workspace) is not None

    async def create(self, workspace: str) -> bool:
        """Make an empty workspace, durable when this returns; False when it was there.

        Raises:
            WorkspaceNameError: no storage would keep this name apart from all others.
            ModelFailedError: the embedding endpoint does not tell the length of its vectors.
        """
        registry = await self._ready()
        if await registry.find(checked_name(workspace)) is not None:
            return False
        return await registry.add(workspace, Entry(await self._models.vectors()))

    async def open(self, workspace: str) -> Backend:
        """Open a workspace and go on with what was unfinished in it."""
        registry = await self._ready()
        await self._known(workspace)
        await registry.hold(workspace)
        try:
            # Once more: it may have been dropped until it was held.
            return await self._opened(workspace, await self._known(workspace))
        except BaseException:  # whatever happened, the workspace is not open
            await registry.release(workspace)
            raise

    async def _opened(self, workspace: str, entry: Entry) -> Backend:
        from dsh_lightrag.server.core import inside  # noqa: PLC0415 - imports LightRAG
        from dsh_lightrag.server.core.backend import CoreBackend  # noqa: PLC0415 - as above

        vectors = await self._models.vectors()
        if entry.vectors != vectors:
            raise WorkspaceBrokenError(
                f"The workspace {workspace!r} has vectors of {entry.vectors.model!r} "
                f"({entry.vectors.dimensions} numbers each), not of {vectors.model!r} "
                f"({vectors.dimensions}).",
                "Configure that model, or make a new workspace and insert the documents again.",
            )
        async with AsyncExitStack() as undo:
            undo.push_async_callback(inside.forget, workspace)
            core = inside.new_core(workspace, self._settings, self._models, vectors)
            backend = CoreBackend(workspace, core, self._registry)
            try:
                await backend.start(entry.deleting)
            except Exception as error:  # LightRAG raises whatever its storages raise
                raise WorkspaceBrokenError(
                    f"The workspace {workspace!r} cannot be opened ({type(error).__name__}).",
                    "Look at the server's log; the workspace was left as it is.",
                ) from error
            undo.pop_all()
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
        """Let go of the database, the models and the process's environment."""
        from dsh_lightrag.server.core import inside  # noqa: PLC0415 - imports LightRAG

        async with AsyncExitStack() as stack:
            stack.callback(environment.leave)
            stack.push_async_callback(self._models.close)
            stack.push_async_callback(self._registry.close)
            if self._client is not None:
                stack.push_async_callback(inside.disconnect, self._client)

    async def _entry(self, workspace: str) -> Entry | None:
        """Return what is remembered of a workspace; a name that cannot be one is none."""
        registry = await self._ready()
        return await registry.find(workspace) if is_name(workspace) else None

    async def _known(self, workspace: str) -> Entry:
        entry = await self._entry(workspace)
        if entry is None:
            raise WorkspaceUnknownError(
                f"There is no workspace {workspace[:64]!r}.", "Create it, or check its name."
            )
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
