"""Failures as tables: an HTTP status or an exception goes in, a code and a reason come out."""

from __future__ import annotations

import re
import socket
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import httpx
from pydantic import ValidationError

from dsh_lightrag.errors import Code
from dsh_lightrag.wire import ErrorReply, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FAULTS_TOLD = 5

STATUS_CODES: dict[int, Code] = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHORIZED,
    403: Code.UNAUTHORIZED,
    404: Code.NOT_FOUND,
    405: Code.NOT_FOUND,
    409: Code.CONFLICT,
    413: Code.TOO_LARGE,
    422: Code.INVALID_ARGUMENT,
    429: Code.RATE_LIMITED,
}

# What a server says of a route that it does not have; of an unknown id it says more.
GONE_ROUTES = {None, "Not Found", "Method Not Allowed"}
UNKNOWN_ID_HINT = "Look the id up with dsh_lightrag_documents and call again."

# The most specific class wins; every httpx exception has one here (a test walks them).
EXCEPTION_CODES: dict[type[Exception], Code] = {
    httpx.TransportError: Code.UNREACHABLE,
    httpx.TimeoutException: Code.TIMEOUT,
    httpx.DecodingError: Code.BAD_RESPONSE,
    httpx.TooManyRedirects: Code.BAD_RESPONSE,
    httpx.HTTPStatusError: Code.SERVER_ERROR,
    httpx.RequestError: Code.UNREACHABLE,
    httpx.StreamError: Code.UNREACHABLE,
    httpx.CookieConflict: Code.BAD_RESPONSE,
    httpx.InvalidURL: Code.UNREACHABLE,
    httpx.HTTPError: Code.UNREACHABLE,
}

# The first that fits the deepest error tells why nothing came back.
REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "its TLS certificate is not trusted"),
    (ssl.SSLError, "the TLS handshake failed"),
    (socket.gaierror, "the host name does not resolve (DNS)"),
    (ConnectionRefusedError, "the connection was refused"),
    (ConnectionResetError, "the connection was reset"),
    (BrokenPipeError, "the connection was closed while sending"),
    (httpx.RemoteProtocolError, "the server broke the HTTP protocol or closed the connection"),
    (httpx.LocalProtocolError, "the request could not be written as HTTP"),
    (httpx.ProxyError, "the proxy refused"),
    (httpx.ConnectError, "no connection could be made"),
    (httpx.ReadError, "the connection broke while reading"),
    (httpx.WriteError, "the connection broke while sending"),
)


def code_of_status(status: int, route: Route, *, has_detail: bool) -> Code:
    """Map an HTTP status to its code.

    LightRAG answers 503 with a `detail` while a write must wait; a bare 503 is a broken server.
    """
    if status == httpx.codes.SERVICE_UNAVAILABLE and route.writes and has_detail:
        return Code.BUSY
    return STATUS_CODES.get(status, Code.SERVER_ERROR)


def code_of_exception(error: Exception) -> Code:
    """Map an httpx exception to its code, by the most specific class in the table."""
    return next(EXCEPTION_CODES[kind] for kind in type(error).__mro__ if kind in EXCEPTION_CODES)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Walk from an error to what caused it, members of groups included."""
    pending, seen = [error], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            pending.extend(current.exceptions)
        pending.extend(cause for cause in (current.__context__, current.__cause__) if cause)


def reason_of(error: BaseException) -> str:
    """Tell the deepest useful reason; a type name where an exception says nothing."""
    chain = list(_chain(error))
    for kind, reason in REASONS:
        for link in chain:
            if isinstance(link, kind):
                verdict = getattr(link, "verify_message", "")
                return f"{reason} ({verdict})" if verdict else reason
    return type(error).__name__


def explain(body: bytes) -> str | None:
    """Return what an error body says, raw, or None when it is not LightRAG's JSON.

    Of a 422, the place and the message of each fault; never the input, which it echoes.
    """
    try:
        reply = ErrorReply.model_validate_json(body)
    except ValidationError:
        return None
    if isinstance(reply.detail, list):
        return "; ".join(
            f"{'.'.join(map(str, fault.loc))}: {fault.msg}"
            for fault in reply.detail[:MAX_FAULTS_TOLD]
        )
    return reply.detail or reply.message


def seconds_of(retry_after: str) -> int | None:
    """Read Retry-After, which is a number of seconds or a date."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after.strip()):
        return int(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):  # an offset of many digits overflows
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round((moment - datetime.now(UTC)).total_seconds()))
