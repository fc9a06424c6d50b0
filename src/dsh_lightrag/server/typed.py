"""Every answer is what its content type says: no browser shall take one for a script or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = (b"x-content-type-options", b"nosniff")


class Typed:
    """Pure ASGI: tells browsers to believe the content type, on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to its answer."""

        async def typed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], _HEADER]
            await send(message)

        await self._app(scope, receive, typed)
