"""The closed set of error codes, each with the one action that mends it.

Exception
├── LightRagError       a tool call that failed: what agents and operators see
├── ConfigurationError  a setting that cannot work: raised while loading, before any tool exists
├── UnknownToolError    a name outside the catalog: the host's own unknown-tool error
└── MissingExtraError   an optional part that is not installed, naming the extra to install
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN_NAME = "dsh-lightrag"


class Code(StrEnum):
    """What went wrong. Codes never change meaning; agents and operators may branch on them."""

    INVALID_ARGUMENT = "invalid-argument"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not-found"
    CONFLICT = "conflict"
    BUSY = "busy"
    TOO_LARGE = "too-large"
    RATE_LIMITED = "rate-limited"
    SERVER_ERROR = "server-error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    BAD_RESPONSE = "bad-response"
    DISABLED = "disabled"
    FORBIDDEN = "forbidden"
    OVER_BUDGET = "over-budget"


HINTS: dict[Code, str] = {
    Code.INVALID_ARGUMENT: "Correct the argument named above and call again.",
    Code.UNAUTHORIZED: (
        "Set LIGHTRAG_API_KEY (or apiKey) to the server's key; a server that has only user "
        "accounts needs LIGHTRAG_API_KEY set on its own side."
    ),
    Code.NOT_FOUND: (
        "Check that the endpoint is a LightRAG server of a version named in compatibility.json; "
        "`dsh-lightrag doctor` compares its routes."
    ),
    Code.CONFLICT: (
        "Use another source name, or delete the stored document and insert again once the "
        "deletion has finished."
    ),
    Code.BUSY: "Call dsh_lightrag_status until pipelineBusy is false, then call again.",
    Code.TOO_LARGE: "Ask for less: lower topK or drop withContent; split a text before inserting.",
    Code.RATE_LIMITED: "Wait for the time that the server named, then call again.",
    Code.SERVER_ERROR: (
        "Look for the error id in the LightRAG server's log; its model or embedding backend is "
        "the usual cause."
    ),
    Code.TIMEOUT: "Call again with a lower topK or mode naive, or raise timeoutMs.",
    Code.UNREACHABLE: (
        "Check that the LightRAG server runs and that the endpoint names its host and port; "
        "`dsh-lightrag doctor` tests each step."
    ),
    Code.BAD_RESPONSE: (
        "Check that the endpoint is a LightRAG server and not a proxy, a login page or another "
        "service; `dsh-lightrag doctor` tells them apart."
    ),
    Code.DISABLED: "Ask the operator to switch it on in this deployment's configuration.",
    Code.FORBIDDEN: "Ask for a key or a token whose scopes cover this.",
    Code.OVER_BUDGET: "Ask the operator to raise the base's token budget, or delete documents.",
}


class ErrorFields(TypedDict, total=False):
    """A failed call as machines read it: the `error` object of the command line and of MCP."""

    code: str
    message: str
    hint: str
    status: int
    retryAfterS: int


class LightRagError(Exception):
    """A call that failed.

    Attributes:
        code: member of the closed set.
        message: one sentence of what happened; cleaned and redacted by whoever raised it.
        hint: one action that mends it; the code's own unless a better one is known.
        status: the HTTP status, where there was one.
        retry_after_s: seconds the server asked to wait, where it did.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = HINTS[code] if hint is None else hint
        self.status = status
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{PLUGIN_NAME} ({self.code}): {self.message} Hint: {self.hint}"

    def fields(self) -> ErrorFields:
        """Return the error as a JSON-ready mapping; unknown parts are absent."""
        fields = ErrorFields(code=self.code.value, message=self.message, hint=self.hint)
        if self.status is not None:
            fields["status"] = self.status
        if self.retry_after_s is not None:
            fields["retryAfterS"] = self.retry_after_s
        return fields


class ConfigurationError(ValueError):
    """A setting that cannot work.

    Attributes:
        key: the setting as its owner spells it (`query.topK`, `LIGHTRAG_QUERY__TOP_K`).
        problem: what is wrong; never shows a secret.
        mend: what to write instead.
    """

    def __init__(self, key: str, problem: str, mend: str) -> None:
        super().__init__(key, problem, mend)
        self.key = key
        self.problem = problem
        self.mend = mend

    def __str__(self) -> str:
        return f"{PLUGIN_NAME}: {self.key}: {self.problem} {self.mend}"


class UnknownToolError(LookupError):
    """A name that is in no catalog, so no switch could enable it."""


class MissingExtraError(ImportError):
    """An optional dependency is absent; the text names the extra that brings it."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the extra: pip install 'dsh-lightrag[{extra}]'")
        self.extra = extra


@contextlib.contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Import an optional dependency inside this.

    Raises:
        MissingExtraError: it is not installed, naming the extra that brings it.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(extra, purpose) from error
