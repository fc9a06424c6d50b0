"""What can go wrong with a knowledge base, each with the action that mends it.

EngineError
├── BaseLockedError     another process has the base open for writing
├── BaseCorruptError    the file is damaged or is no knowledge base; it was not touched
├── BaseTooNewError     a newer version wrote the file; it was not touched
├── BaseUnusableError   the file or its folder cannot be read or written
│   └── DiskFullError   there is no room left; what was stored before is as it was
├── ModelMismatchError  the base holds vectors of another embedding model
├── UnknownDocumentError  no document has that id
├── DocumentExistsError   another text is stored under that id
└── ModelFaultError     an embedding or chat model failed or answered nonsense
    └── ModelUnavailableError  it cannot be reached, or serves nobody at this time
"""

from __future__ import annotations


class EngineError(Exception):
    """A knowledge base that cannot do what was asked.

    Attributes:
        problem: one sentence of what happened.
        mend: one action that mends it.
    """

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem, mend)
        self.problem = problem
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.problem} {self.mend}"


class BaseLockedError(EngineError):
    """Another process, or another engine of this one, has the base open."""


class BaseCorruptError(EngineError):
    """The file is damaged, or no knowledge base at all."""

    def __init__(
        self,
        problem: str,
        mend: str = "Restore the file from a copy, or move it away and insert the documents again.",
    ) -> None:
        super().__init__(problem, mend)


class BaseTooNewError(EngineError):
    """A newer version of this package wrote the file."""


class BaseUnusableError(EngineError):
    """The operating system refuses: permissions, a read-only folder, a file that was removed."""


class DiskFullError(BaseUnusableError):
    """There is no room left for what is to be written."""


class ModelMismatchError(EngineError):
    """The base was built with another embedding model than the one offered."""


class UnknownDocumentError(EngineError):
    """No document has that id."""


class DocumentExistsError(EngineError):
    """Another text is stored under that id."""


class ModelFaultError(EngineError):
    """A model failed, or answered with something that is no embedding and no extraction."""


class ModelUnavailableError(ModelFaultError):
    """A model cannot be reached or serves nobody now: no text is to blame, and all may wait."""
