"""Refuses whoever tries to name a workspace: it is derived from who calls, never from what is sent.

A server that ignored such a name would answer from another place than its caller believes; so the
attempt is told. Bodies are closed objects and refuse it by themselves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.api.problems import response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_WORKSPACE = re.compile(r"work[^a-z0-9]*space|tenant[^a-z0-9]*id")


def names_workspace(name: str) -> bool:
    """Tell whether a field's name is that of a workspace, however it is spelled."""
    return _WORKSPACE.search(name.lower()) is not None


class NoWorkspaceNamed:
    """Pure ASGI: refuses headers and query fields that name a workspace, whatever they hold."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on."""
        if scope["type"] == "http" and any(map(names_workspace, _names(scope))):
            error = LightRagError(
                Code.INVALID_ARGUMENT,
                "A workspace cannot be named: it follows from the key and the knowledge base.",
                hint="Leave the header or query field out.",
            )
            await response(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _names(scope: Scope) -> list[str]:
    query = scope["query_string"].decode("latin-1")
    fields = parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="replace")
    headers = [name.decode("latin-1") for name, _ in scope["headers"]]
    return [*headers, *(name for name, _ in fields)]
