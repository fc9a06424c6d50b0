"""How looking at a document can end other than with it indexed; all of it lands in its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_lightrag.errors import Code

if TYPE_CHECKING:
    from dsh_lightrag.errors import LightRagError

# What trying again cannot mend.
LASTING = frozenset({Code.INVALID_ARGUMENT, Code.TOO_LARGE})
# What a team is told meanwhile: neither where the knowledge server is nor its words.
_TOLD = {
    Code.UNREACHABLE: "The knowledge server cannot be reached.",
    Code.TIMEOUT: "The knowledge server did not answer in time.",
    Code.BUSY: "The knowledge server is busy with this base.",
    Code.CONFLICT: "The knowledge server is busy with this base.",
    Code.RATE_LIMITED: "The knowledge server asks to wait.",
}
_FAILED = "The knowledge server failed."
# The first wait and the longest, in seconds: while the server is away, and after an attempt that
# failed, which a model that is down for some minutes should not make the last one.
AWAY_S = (2.0, 30.0)
TRIED_S = (15.0, 300.0)


class Failed(Exception):  # noqa: N818 - an outcome: it says what the document is now
    """The document cannot be indexed as it is; `message` may be shown to its team."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Waits(Exception):  # noqa: N818 - as above
    """The document is looked at again after `after_s` seconds.

    `attempt` says whether indexing was tried and failed, which is not tried for ever; None of
    `after_s` waits longer each time.
    """

    def __init__(
        self, code: str, message: str, *, after_s: float | None = None, attempt: bool = False
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.after_s = after_s
        self.attempt = attempt


class StillIndexing(Exception):  # noqa: N818 - as above
    """The server works on it; the job ends so that it holds no worker.

    `message` is what the server says of its trouble meanwhile, or nothing.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def of_server(error: LightRagError) -> Failed | Waits:
    """Tell what a server's refusal means for the document that was to be filed."""
    if error.code in LASTING:
        return Failed(error.code.value, error.message)
    told = _TOLD.get(error.code, _FAILED)
    return Waits(error.code.value, told, after_s=error.retry_after_s)


def backoff_s(times: int, *, tried: bool) -> float:
    """Return how long to wait after so many waits before, in seconds."""
    first, longest = TRIED_S if tried else AWAY_S
    return float(min(first * 2 ** min(times, 20), longest))
