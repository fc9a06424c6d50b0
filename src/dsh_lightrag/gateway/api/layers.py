"""What surrounds every route: who calls is proven before anything is parsed, failures are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from dsh_lightrag.gateway.api.problems import error_of, response
from dsh_lightrag.gateway.api.use import use_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from dsh_lightrag.gateway.identity import Identities

# What tells nothing and changes nothing: probes carry no key.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class Authenticated:
    """Pure ASGI: lets in whoever proves who they are, and the probes."""

    def __init__(self, app: ASGIApp, identities: Identities) -> None:
        self._app = app
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on with its caller."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = Headers(scope=scope).getlist("authorization")
            try:
                # Two headers would leave open which of them counts.
                use_of(scope).caller = await self._identities.verify(
                    given[0] if len(given) == 1 else None
                )
            except Exception as error:  # noqa: BLE001 - told as a problem; a bug is logged there
                await response(*error_of(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


class Audited:
    """Pure ASGI: no answer leaves before its use is recorded, and none when it cannot be."""

    def __init__(self, app: ASGIApp, identities: Identities) -> None:
        self._app = app
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and record its use when the answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        use = use_of(scope)
        replaced = False

        async def recorded(message: Message) -> None:
            nonlocal replaced
            if replaced:
                return
            if message["type"] == "http.response.start" and use.caller is not None:
                try:
                    await self._identities.record(
                        use.caller, use.operation, use.base_id, use.outcome
                    )
                except Exception as error:  # noqa: BLE001 - as above
                    replaced = True
                    await response(*error_of(error))(scope, receive, send)
                    return
            await send(message)

        await self._app(scope, receive, recorded)
