"""One request as the audit sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uuid
    from collections.abc import MutableMapping

    from dsh_lightrag.gateway.caller import Caller

_KEY = "dsh_lightrag.use"


@dataclass(slots=True)
class Use:
    """What is known of a request so far; nobody is recorded who did not prove who they are."""

    caller: Caller | None = None
    operation: str = "unknown"
    base_id: uuid.UUID | None = None
    outcome: str = "ok"


def use_of(scope: MutableMapping[str, Any]) -> Use:
    """Return the use of a request, made where there is none yet."""
    use: Use = scope.setdefault(_KEY, Use())
    return use
