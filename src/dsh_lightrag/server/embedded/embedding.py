"""One embedding model for all workspaces: loaded when it is first needed, questions first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from dsh_lightrag.engine import Embedder, MiniLM, ModelUnavailableError, WordTable
from dsh_lightrag.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

LOCAL: dict[str, type[MiniLM | WordTable]] = {"minilm": MiniLM, "static": WordTable}
# Passages are embedded so many at a time; a question waits for one such batch at most.
_BATCH = 4
_LONGEST_COURTESY_S = 1.0


class LocalEmbedder:
    """A model of this machine, which several bases use at once.

    Attributes:
        identity: as the model's own; known before it is loaded.
        dimension: as the model's own.
    """

    def __init__(self, model: type[MiniLM | WordTable]) -> None:
        self.identity: str = model.identity
        self.dimension: int = model.dimension
        self._make: Callable[[], Embedder] = model
        self._made: Embedder | None = None
        self._making = threading.Lock()
        self._passages = threading.Lock()
        self._no_question = threading.Condition()
        self._questions = 0

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text; raises `ModelUnavailableError` when there is no such model."""
        model = self._model()
        if query:
            with self._no_question:
                self._questions += 1
            try:
                return model.embed(texts, query=True)
            finally:
                with self._no_question:
                    self._questions -= 1
                    self._no_question.notify_all()
        rows = [np.empty((0, self.dimension), dtype=np.float32)]
        for start in range(0, len(texts), _BATCH):
            with self._no_question:
                # Bounded: questions that never pause must not stop all ingestion.
                self._no_question.wait_for(lambda: not self._questions, _LONGEST_COURTESY_S)
            with self._passages:
                rows.append(model.embed(texts[start : start + _BATCH], query=False))
        return np.concatenate(rows)

    def _model(self) -> Embedder:
        if self._made is None:
            with self._making:
                if self._made is None:
                    try:
                        self._made = self._make()
                    except (MissingExtraError, OSError) as absent:
                        raise ModelUnavailableError(
                            f"The embedding model {self.identity} cannot be loaded: {absent}.",
                            "Install it, or choose another embedder.",
                        ) from absent
        return self._made
