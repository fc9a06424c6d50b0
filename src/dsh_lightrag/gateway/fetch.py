"""Fetches a URL that somebody else wrote, without letting it reach anything inside.

The guard stands at the socket: a name is looked up once, every address that it has is checked,
and the connection goes to one of those very addresses, while the Host header and the certificate
stay those of the name. So a name that answers differently the second time gains nothing, and an
address may be spelled in any way. Below any client: no proxy, cookie, netrc or own redirects.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import httpcore
import httpx

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.addresses import Address, is_public
from dsh_lightrag.text import Redactor, excerpt
from dsh_lightrag.transport.failures import STATUS_CODES, reason_of, seconds_of
from dsh_lightrag.transport.pool import HandshakeGuard
from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

PORTS = {"http": 80, "https": 443}
MAX_URL_CHARS = 2048
# Of the addresses of one name, how many are tried.
MAX_TRIED = 3
REDIRECTS = (301, 302, 303, 307, 308)
_OFFICE = "application/vnd.openxmlformats-officedocument"
TYPES = frozenset(
    {
        "application/csv",
        "application/json",
        "application/ld+json",
        "application/pdf",
        "application/xhtml+xml",
        "application/xml",
        f"{_OFFICE}.presentationml.presentation",
        f"{_OFFICE}.spreadsheetml.sheet",
        f"{_OFFICE}.wordprocessingml.document",
        "text/csv",
        "text/html",
        "text/markdown",
        "text/plain",
        "text/tab-separated-values",
        "text/x-markdown",
        "text/xml",
    }
)
_NOTHING_SECRET = Redactor("")
_CHARSET = re.compile(r"(?i);\s*charset=\"?([a-z0-9._:-]{1,40})")


class Target(NamedTuple):
    """Where a connection goes: an address as text, and a port."""

    address: str
    port: int


Resolve = Callable[[str, int], Awaitable[Sequence[Target]]]


async def system_names(host: str, port: int) -> Sequence[Target]:
    """Look a name up as the machine does.

    Raises:
        OSError: it does not resolve.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [Target(str(sockaddr[0]), int(sockaddr[1])) for *_, sockaddr in found]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a fetch may go.

    Attributes:
        resolve: looks a name up; asked once per connection.
        allows: whether an address may be connected to.
        tls: how certificates are verified; None trusts the public authorities.
    """

    resolve: Resolve = system_names
    allows: Callable[[Address], bool] = is_public
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a fetch is borne.

    Attributes:
        max_bytes: of the body.
        timeout_s: for everything together, redirects included.
        max_redirects: how often it may be sent on.
        types: the media types that are taken.
    """

    max_bytes: int = 20 * 1024 * 1024
    timeout_s: float = 60.0
    max_redirects: int = 5
    types: frozenset[str] = field(default=TYPES)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a URL held.

    Attributes:
        data: the body as it was sent, never empty.
        media_type: lower case, without parameters.
        charset: what the server said of it, or nothing.
        url: where it was found in the end.
        file_name: the last segment of that URL's path, possibly empty.
    """

    data: bytes
    media_type: str
    charset: str
    url: str
    file_name: str


def checked_url(text: str) -> httpx.URL:
    """Return a URL that may be asked for, as far as its text tells.

    Raises:
        LightRagError: `invalid-argument`, naming the rule and never the URL.
    """
    try:
        url = httpx.URL(text) if len(text) <= MAX_URL_CHARS else None
        if url is not None:
            # Both refuse what no name can be; the second is what a lookup begins with.
            _ = url.host, url.raw_host.decode("ascii").encode("idna")
    except (httpx.InvalidURL, UnicodeError, ValueError):  # all of them from odd names and ports
        url = None
    if url is None or not text.isprintable() or "\\" in text or " " in text:
        raise _refused(f"The URL is none, or longer than {MAX_URL_CHARS} characters.")
    for wrong, rule in (
        (url.scheme not in PORTS, "The URL is neither http nor https."),
        (not url.host, "The URL names no host."),
        (bool(url.userinfo), "The URL carries credentials."),
        (url.port not in {None, *PORTS.values()}, "The URL has a port other than 80 and 443."),
    ):
        if wrong:
            raise _refused(rule)
    return url.copy_with(fragment=None)


async def fetch(url: str, limits: Limits | None = None, reach: Reach | None = None) -> Fetched:
    """Fetch a URL.

    Raises:
        LightRagError: `invalid-argument` for a URL, redirect or address that is not allowed, or a
            media type that is not taken; `not-found`, `forbidden`, `rate-limited` or
            `server-error` by the status; `too-large`, `timeout`, `unreachable`, `bad-response`.
    """
    limits, reach = limits or Limits(), reach or Reach()
    pool = httpcore.AsyncConnectionPool(
        reach.tls or _public_authorities(),
        max_connections=1,
        max_keepalive_connections=0,  # so that every hop is looked up and checked
        network_backend=HandshakeGuard(_CheckedBackend(reach)),
    )
    try:
        async with asyncio.timeout(limits.timeout_s), pool:
            return await _follow(pool, checked_url(url), limits)
    except (TimeoutError, httpcore.TimeoutException):
        raise LightRagError(
            Code.TIMEOUT,
            f"The URL was not fetched within {limits.timeout_s:g} s.",
            hint="Try again later, or upload the document.",
        ) from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise LightRagError(
            Code.UNREACHABLE,
            f"The URL's host did not answer: {reason_of(error)}.",
            hint="Check the URL, or upload the document.",
        ) from error


@functools.cache  # reading them takes 20 ms
def _public_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


async def _follow(pool: httpcore.AsyncConnectionPool, url: httpx.URL, limits: Limits) -> Fetched:
    for _ in range(limits.max_redirects + 1):
        request = _request(url, limits)
        response = await pool.handle_async_request(request)
        async with contextlib.aclosing(response):
            if response.status not in REDIRECTS:
                return await _read(url, response, limits)
            location = httpx.Headers(response.headers).get("location")
        url = _next(url, location)
    raise LightRagError(
        Code.BAD_RESPONSE,
        f"The URL was redirected more than {limits.max_redirects} times.",
        hint="Name the URL where the document really is.",
    )


def _request(url: httpx.URL, limits: Limits) -> httpcore.Request:
    return httpcore.Request(
        "GET",
        httpcore.URL(
            scheme=url.scheme.encode(), host=url.raw_host, port=url.port, target=url.raw_path
        ),
        headers={
            "Host": url.netloc,
            "Accept": ", ".join(sorted(limits.types)),
            "Accept-Encoding": "identity",  # or a small body could become a huge one
            "Connection": "close",
            "User-Agent": f"dsh-lightrag/{__version__}",
        },
    )


def _next(url: httpx.URL, location: str | None) -> httpx.URL:
    """Return where a redirect leads, checked as a URL that was given."""
    if not location:
        raise _bad("The URL was redirected to nowhere.")
    try:
        target = checked_url(str(url.join(location)))
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise _bad("The URL was redirected to what is no URL.") from None
    if url.scheme == "https" and target.scheme == "http":
        raise _refused("The URL was redirected from https to http.")
    return target


async def _read(url: httpx.URL, response: httpcore.Response, limits: Limits) -> Fetched:
    headers = httpx.Headers(response.headers)
    _judge_status(response.status, headers)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _bad("The URL answered with an encoding that was not asked for.")
    kind = headers.get("content-type", "")
    media_type = kind.partition(";")[0].strip().lower()
    if media_type not in limits.types:
        shown = excerpt(media_type or "none at all", _NOTHING_SECRET)
        raise LightRagError(
            Code.INVALID_ARGUMENT,
            f"The URL holds a media type that is not taken: {shown}.",
            hint="Name a page, a text or an office document.",
        )
    data = await _body(response, headers, limits)
    if not data:
        raise _bad("The URL holds an empty document.")
    charset = _CHARSET.search(kind)
    name = url.path.rpartition("/")[2]
    return Fetched(data, media_type, charset[1] if charset else "", str(url), name)


async def _body(response: httpcore.Response, headers: httpx.Headers, limits: Limits) -> bytes:
    said = headers.get("content-length", "")
    too_large = LightRagError(
        Code.TOO_LARGE,
        f"The URL holds more than {limits.max_bytes} bytes.",
        hint="Split the document, or ask the operator for a higher limit.",
    )
    if said.isdigit() and int(said) > limits.max_bytes:
        raise too_large
    data = bytearray()
    async for chunk in response.aiter_stream():
        data += chunk
        if len(data) > limits.max_bytes:
            raise too_large
    return bytes(data)


def _judge_status(status: int, headers: httpx.Headers) -> None:
    if status == httpx.codes.OK:
        return
    code = _STATUS_CODES.get(status, Code.BAD_RESPONSE)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        code = Code.SERVER_ERROR
    raise LightRagError(
        code,
        f"The URL answered with HTTP {status}.",
        hint="Check that the URL can be read without signing in, or upload the document.",
        status=status,
        retry_after_s=seconds_of(headers.get("retry-after", "")),
    )


# As a knowledge server's, but for what asks for credentials: we have none.
_STATUS_CODES = {
    **STATUS_CODES,
    400: Code.BAD_RESPONSE,
    401: Code.FORBIDDEN,
    403: Code.FORBIDDEN,
    405: Code.BAD_RESPONSE,
    408: Code.TIMEOUT,
    409: Code.BAD_RESPONSE,
    410: Code.NOT_FOUND,
    413: Code.BAD_RESPONSE,
    422: Code.BAD_RESPONSE,
    451: Code.FORBIDDEN,
}


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Looks names up itself and connects to an address that it has checked."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host, or refuse it.

        Raises:
            LightRagError: `invalid-argument`, when any address of the name is not allowed: a
                name with one foot inside is no public name.
        """
        targets = await self._reach.resolve(host, port)
        if not targets or not all(map(self._allows, targets)):
            raise _refused("The URL leads to an address outside the public internet.")
        failure: Exception = httpcore.ConnectError()
        for target in targets[:MAX_TRIED]:
            try:
                return await self._sockets.connect_tcp(
                    *target, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _allows(self, target: Target) -> bool:
        try:
            return self._reach.allows(ipaddress.ip_address(target.address))
        except ValueError:
            return False


def _refused(problem: str) -> LightRagError:
    return LightRagError(
        Code.INVALID_ARGUMENT, problem, hint="Name a public http or https URL, or upload it."
    )


def _bad(problem: str) -> LightRagError:
    return LightRagError(
        Code.BAD_RESPONSE, problem, hint="Check the URL in a browser, or upload the document."
    )
