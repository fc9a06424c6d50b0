"""The engine's errors as the seam's: the one place where they are translated."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsh_lightrag import engine
from dsh_lightrag.engine import (
    BaseCorruptError,
    BaseLockedError,
    BaseTooNewError,
    BaseUnusableError,
    DocumentExistsError,
    EngineError,
    ModelFaultError,
    ModelMismatchError,
    UnknownDocumentError,
)
from dsh_lightrag.server.backend import (
    BackendError,
    DiskFullError,
    ModelFailedError,
    NameTakenError,
    UnknownDocumentsError,
    WorkspaceBrokenError,
    WorkspaceLockedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE: dict[type[EngineError], type[BackendError]] = {
    BaseLockedError: WorkspaceLockedError,
    BaseCorruptError: WorkspaceBrokenError,
    BaseTooNewError: WorkspaceBrokenError,
    BaseUnusableError: WorkspaceBrokenError,
    engine.DiskFullError: DiskFullError,
    ModelMismatchError: WorkspaceBrokenError,
    UnknownDocumentError: UnknownDocumentsError,
    DocumentExistsError: NameTakenError,
    ModelFaultError: ModelFailedError,
}


@contextmanager
def translated() -> Iterator[None]:
    """Let an error of the engine leave as the seam's error of the same meaning."""
    try:
        yield
    except EngineError as fault:
        kind = next(_TABLE[base] for base in type(fault).__mro__ if base in _TABLE)
        raise kind(fault.problem, fault.mend) from fault
