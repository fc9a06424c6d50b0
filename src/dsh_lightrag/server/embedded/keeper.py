"""A folder of bases: one folder per workspace, one SQLite file in it that is the truth."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dsh_lightrag.engine import ChunkSizes, Engine, EngineOptions
from dsh_lightrag.engine.refusals import translated
from dsh_lightrag.engine.schema import BaseLock, remembered, sync
from dsh_lightrag.server import removing
from dsh_lightrag.server.backend import WorkspaceUnknownError
from dsh_lightrag.server.embedded.backend import EmbeddedBackend
from dsh_lightrag.server.embedded.embedding import LOCAL, LocalEmbedder
from dsh_lightrag.server.embedded.threads import Threads
from dsh_lightrag.server.endpoint import Endpoint
from dsh_lightrag.server.models import ChatEndpoint, EmbeddingEndpoint
from dsh_lightrag.server.workspaces import BASE_FILE, bases_folder, checked_name, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from dsh_lightrag.engine import Progress


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """How the bases of a folder are built and asked.

    Attributes:
        data: the folder; bases lie in `bases/<workspace>/`.
        embedder: a model of this machine, none, or an endpoint.
        chat: the endpoint that reads passages for the graph and writes answers, if any.
        chunks: how documents are cut.
    """

    data: Path
    embedder: Literal["minilm", "static", "none"] | Endpoint = "minilm"
    chat: Endpoint | None = None
    chunks: ChunkSizes = field(default_factory=ChunkSizes)


class EmbeddedKeeper:
    """Makes, opens and drops bases; they share one embedding model and their threads."""

    kind = "embedded"

    def __init__(self, settings: EmbeddedSettings) -> None:
        self._settings = settings
        self._bases = bases_folder(settings.data)
        self._threads = Threads()
        self._embedder = _embedder(settings.embedder)
        self._chat = ChatEndpoint(settings.chat) if settings.chat else None

    @property
    def answers(self) -> bool:
        """Tell whether a chat model is configured."""
        return self._settings.chat is not None

    def configuration(self) -> Mapping[str, object]:
        """Return what may be told of models and storages."""
        embedder, chat = self._settings.embedder, self._settings.chat
        return {
            "llm_binding": "openai" if chat else "none",
            "llm_model": chat.model if chat else "none",
            "embedding_binding": embedder if isinstance(embedder, str) else "openai",
            "embedding_model": _model_name(embedder),
            "kv_storage": "sqlite",
            "doc_status_storage": "sqlite",
            "graph_storage": "sqlite",
            "vector_storage": "sqlite",
        }

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        return await self._threads.read(self._names)

    def _names(self) -> list[str]:
        if not self._bases.is_dir():
            return []
        return sorted(
            entry.name for entry in self._bases.iterdir() if is_name(entry.name) and entry.is_dir()
        )

    async def exists(self, workspace: str) -> bool:
        """Tell whether there is such a workspace; a name that cannot be one is none."""
        return is_name(workspace) and self._folder(workspace).is_dir()

    async def create(self, workspace: str) -> bool:
        """Make an empty workspace, durable when this returns; False when it was there.

        Raises `WorkspaceNameError` for a name that cannot be one.
        """
        return await self._threads.write(self._create, self._folder(checked_name(workspace)))

    def _create(self, folder: Path) -> bool:
        with translated(folder, "cannot be made", "Give the server a data folder it may write."):
            self._bases.mkdir(parents=True, exist_ok=True)
            if folder.is_dir():
                return False
            folder.mkdir(exist_ok=True)
            for made in (folder, self._bases, self._bases.parent):
                sync(made)
        return True

    async def open(self, workspace: str) -> EmbeddedBackend:
        """Open a workspace that exists, and go on with what a last process left undone."""
        if not await self.exists(workspace):
            raise WorkspaceUnknownError(
                f"There is no workspace {workspace[:64]!r}.", "Create it, or check its name."
            )
        engine = await self._threads.write(self._open, self._folder(workspace) / BASE_FILE)
        backend = EmbeddedBackend(engine, self._threads, self._chat)
        try:
            await backend.resume()
        except BaseException:  # cancelled too, nobody else would close it and let go of the lock
            await backend.close()
            raise
        return backend

    def reindex(self, workspace: str, report: Callable[[Progress], None]) -> Progress:
        """Make the vectors of a closed workspace with this model; blocks until all are there.

        What is there of this model stays, so that a run that was broken off goes on.
        Raises `EngineError`.
        """
        with self._open(self._folder(workspace) / BASE_FILE, reindex=True) as engine:
            return engine.catch_up(report)

    def _open(self, path: Path, *, reindex: bool = False) -> Engine:
        removing.sweep(self._bases)
        if isinstance(self._embedder, EmbeddingEndpoint):
            # An endpoint that is down must not keep a base from opening that knows its vectors.
            self._embedder.presume(remembered(path).get("embedder", ""))
        return Engine.open(
            path,
            embedder=self._embedder,
            chat=self._chat,
            options=EngineOptions(chunks=self._settings.chunks),
            reindex=reindex,
        )

    async def drop(self, workspace: str) -> bool:
        """Remove a closed workspace: its base, sidecars and locks."""
        return is_name(workspace) and await self._threads.write(self._drop, self._folder(workspace))

    def _drop(self, folder: Path) -> bool:
        with translated(folder, "was not removed whole", "Remove it again."), ExitStack() as stack:
            if folder.is_dir():
                stack.enter_context(closing(BaseLock(folder / BASE_FILE)))
            return removing.drop_folder(folder)

    async def close(self) -> None:
        """Close the connections to the models; the workspaces are closed by who opened them."""
        if isinstance(self._embedder, EmbeddingEndpoint):
            self._embedder.close()
        if self._chat is not None:
            await self._chat.close()

    def _folder(self, workspace: str) -> Path:
        return self._bases / workspace


def _embedder(
    wanted: Literal["minilm", "static", "none"] | Endpoint,
) -> LocalEmbedder | EmbeddingEndpoint | None:
    if isinstance(wanted, Endpoint):
        return EmbeddingEndpoint(wanted)
    model = LOCAL.get(wanted)
    return LocalEmbedder(model) if model else None


def _model_name(wanted: str | Endpoint) -> str:
    if isinstance(wanted, Endpoint):
        return wanted.model
    return LOCAL[wanted].identity if wanted in LOCAL else "none"
