"""The door: one locked origin, one deadline, one byte cap.

Every request goes through httpx's transport, below its client: there are no redirects to
follow, no cookies to keep, no netrc and no proxy variables to obey at this level, and the
headers sent are exactly the ones written here. (httpx's client, given an absolute URL, would
carry the key to any host.)
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import quote
from weakref import WeakKeyDictionary

import httpx

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.logs import hush_http_libraries
from dsh_lightrag.origin import DEFAULT_PORTS, Origin
from dsh_lightrag.text import Redactor, excerpt
from dsh_lightrag.transport.failures import (
    EXCEPTION_CODES,
    GONE_ROUTES,
    UNKNOWN_ID_HINT,
    code_of_exception,
    code_of_status,
    explain,
    reason_of,
    seconds_of,
)
from dsh_lightrag.transport.pool import open_pool
from dsh_lightrag.version import __version__
from dsh_lightrag.wire import API_KEY_HEADER, WORKSPACE_HEADER, Route

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from dsh_lightrag.budget import Budget
    from dsh_lightrag.settings import Connection

MAX_RESPONSE_BYTES = 2 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
ERROR_BODY_S = 2.0


class OriginLock(httpx.AsyncBaseTransport):
    """Refuses every request to another origin before a socket is opened."""

    def __init__(self, inner: httpx.AsyncBaseTransport, origin: Origin) -> None:
        self._inner = inner
        self._origin = origin

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass on what goes to the origin.

        Raises:
            LightRagError: `unreachable`, for any other scheme, host or port.
        """
        url = request.url
        port = url.port or DEFAULT_PORTS.get(url.scheme)
        host = url.raw_host.decode("ascii")  # as it is sent; `host` decodes xn-- names
        if (url.scheme, host, port) != (
            self._origin.scheme,
            self._origin.host,
            self._origin.port,
        ) or url.userinfo:
            raise LightRagError(
                Code.UNREACHABLE, f"A request to an origin other than {self._origin} was refused."
            )
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the pool below."""
        await self._inner.aclose()


class Transport:
    """Sends fixed routes to one origin and returns bodies as bytes, or raises LightRagError.

    Connections are pooled per running event loop and reused across calls. Whoever makes a
    transport closes it.
    """

    def __init__(
        self, connection: Connection, *, inner: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.connection = connection
        self.redact = Redactor(connection.api_key.get_secret_value())
        self._inner = inner
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, OriginLock] = WeakKeyDictionary()
        hush_http_libraries()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the running loop's connections; idempotent."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    async def send(
        self,
        route: Route,
        budget: Budget,
        body: bytes | None = None,
        *,
        workspace: str = "",
        name: str = "",
    ) -> bytearray:
        """Make one request and return the body of its 2xx answer.

        `name` stands for the braces of the route's path, as one segment whatever it holds.

        Raises:
            LightRagError: every failure, by the tables above.
        """
        request = self._request(route, body, workspace, name)
        progress = "waiting for an answer to begin"
        clock = asyncio.timeout_at(budget.ends_at)
        try:
            async with clock:
                response = await self._pool().handle_async_request(request)
                progress = "reading the body of the answer"
                async with contextlib.aclosing(response):
                    return await self._read(route, response, budget)
        except TimeoutError:
            raise self._timed_out(budget, progress) from None
        except tuple(EXCEPTION_CODES) as error:
            raise self._failed(error) from error

    def _request(
        self, route: Route, body: bytes | None, workspace: str, name: str
    ) -> httpx.Request:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"dsh-lightrag/{__version__}",
        }
        key = self.connection.api_key.get_secret_value()
        if key:
            headers[API_KEY_HEADER] = key
        if workspace:
            headers[WORKSPACE_HEADER] = workspace
        if body is not None:
            headers["Content-Type"] = "application/json"
        path = route.path.format(name=quote(name, safe=""))
        url = f"{self.connection.origin}{self.connection.base_path}{path}"
        return httpx.Request(route.method, url, headers=headers, content=body)

    def _pool(self) -> OriginLock:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for ended in [known for known in self._pools if known.is_closed()]:
                del self._pools[ended]  # or a host with a loop per call would run out of files
            pool = OriginLock(self._inner or open_pool(self.connection), self.connection.origin)
            self._pools[loop] = pool
        return pool

    async def _read(self, route: Route, response: httpx.Response, budget: Budget) -> bytearray:
        """Judge the status first, then the encoding, then read under the cap."""
        if not response.is_success:
            raise await self._refusal(route, response, budget)
        if not _is_plain(response):
            encoding = response.headers["Content-Encoding"]
            raise self._bad_response(f"the content encoding {encoding!r}, which was not asked for")
        body = bytearray()
        async with contextlib.aclosing(_raw(response)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_RESPONSE_BYTES:
                    raise LightRagError(
                        Code.TOO_LARGE,
                        f"The answer is larger than {MAX_RESPONSE_BYTES} bytes and was dropped.",
                        status=response.status_code,
                    )
        return body

    async def _refusal(
        self, route: Route, response: httpx.Response, budget: Budget
    ) -> LightRagError:
        status = response.status_code
        if 300 <= status < 400:  # noqa: PLR2004 - the 3xx class
            return self._redirected(response)
        detail = explain(await _beginning(response, budget))
        code = code_of_status(status, route, has_detail=detail is not None)
        retry_after = seconds_of(response.headers.get("Retry-After", ""))
        message = f"HTTP {status}."
        if detail:
            message += f' server said: "{excerpt(detail, self.redact)}"'
        if retry_after is not None:
            message += f" Retry after {retry_after} s."
        hint = UNKNOWN_ID_HINT if code is Code.NOT_FOUND and detail not in GONE_ROUTES else None
        return LightRagError(code, message, hint=hint, status=status, retry_after_s=retry_after)

    def _redirected(self, response: httpx.Response) -> LightRagError:
        """Name the status and, at most, the target's origin: a location may carry anything."""
        target = ""
        with contextlib.suppress(httpx.InvalidURL, ValueError):  # the second from bad IDNA names
            url = httpx.URL(response.headers.get("Location", ""))
            if url.host:
                target = excerpt(f"to {url.scheme}://{url.netloc.decode('ascii')}", self.redact)
        return LightRagError(
            Code.BAD_RESPONSE,
            f"HTTP {response.status_code}: a redirect{target and ' '}{target} was not followed.",
            hint="Set the endpoint (and basePath) to the address the server really answers at.",
            status=response.status_code,
        )

    def _bad_response(self, what: str) -> LightRagError:
        return LightRagError(
            Code.BAD_RESPONSE,
            f"{self.connection.origin} answered with {excerpt(what, self.redact)}.",
        )

    def _timed_out(self, budget: Budget, progress: str) -> LightRagError:
        return LightRagError(
            Code.TIMEOUT,
            f"The budget of {budget.total_ms} ms was used up while {progress} "
            f"from {self.connection.origin}.",
        )

    def _failed(self, error: Exception) -> LightRagError:
        reason = excerpt(reason_of(error), self.redact)
        return LightRagError(
            code_of_exception(error), f"{self.connection.origin} did not answer: {reason}."
        )


def _is_plain(response: httpx.Response) -> bool:
    encoding: str = response.headers.get("Content-Encoding", "identity")
    return encoding.lower() == "identity"


def _raw(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Return the bytes as they come off the wire, as the generator that it really is."""
    return cast("AsyncGenerator[bytes]", response.aiter_raw())


async def _beginning(response: httpx.Response, budget: Budget) -> bytes:
    """Read as much of an error body as may hold its detail; an encoded one is not read.

    Takes at most half of what is left of the budget: the status has said what matters.
    """
    body = bytearray()
    if not _is_plain(response):
        return b""
    now = asyncio.get_running_loop().time()
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with (
            asyncio.timeout_at(now + min(ERROR_BODY_S, (budget.ends_at - now) / 2)),
            contextlib.aclosing(_raw(response)) as chunks,
        ):
            async for chunk in chunks:
                body += chunk
                if len(body) >= MAX_ERROR_BYTES:
                    break
    return bytes(body[:MAX_ERROR_BYTES])
