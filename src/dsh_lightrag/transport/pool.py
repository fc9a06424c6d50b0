"""The connection pool: certificates verified, no proxy unless asked for, nothing left behind."""

from __future__ import annotations

import asyncio
import re
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from dsh_lightrag.errors import Code, LightRagError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsh_lightrag.settings import Connection

# Below the 5 s after which LightRAG's server closes an idle connection: a request must not be
# written into a connection that is being closed, since a POST cannot be tried again.
KEEPALIVE_S = 4.0
# What sends requests, for whoever shares one pool between transports.
Pool = httpx.AsyncBaseTransport


def open_pool(connection: Connection) -> httpx.AsyncBaseTransport:
    """Open a connection pool for one origin; certificates are always verified."""
    if connection.ca_file is not None or connection.origin.scheme == "https":
        context = tls_context(connection)
    else:
        # Never used for plain http, and reading the public authorities takes 20 ms.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = httpx.AsyncHTTPTransport(
        verify=context,
        trust_env=False,
        limits=httpx.Limits(keepalive_expiry=KEEPALIVE_S),
        proxy=proxy_of(connection) if connection.use_proxy else None,
    )
    pool = transport._pool  # noqa: SLF001 - httpx offers no way to name a network backend
    pool._network_backend = HandshakeGuard(pool._network_backend)  # noqa: SLF001 - as above
    return transport


def tls_context(connection: Connection) -> ssl.SSLContext:
    """Trust the authority that `caFile` names, or else the public ones; always verify.

    Raises:
        LightRagError: `unreachable`, when the file has gone since the settings were loaded.
    """
    if connection.ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=connection.ca_file)
    except OSError:
        raise LightRagError(
            Code.UNREACHABLE,
            "The file that caFile names cannot be read any more.",
            hint="Put the certificates back, or correct caFile.",
        ) from None


def proxy_of(connection: Connection) -> str | None:
    """Return the proxy that the environment names for the origin.

    Raises:
        LightRagError: `unreachable`, when it names one that cannot be used.
    """
    origin = connection.origin
    if urllib.request.proxy_bypass(origin.host_header):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    if proxy is not None and not re.match(r"https?://[^/]", proxy):
        raise LightRagError(
            Code.UNREACHABLE,
            "The proxy named by the environment is no http:// or https:// URL.",
            hint="Correct the proxy variable, or set useProxy to false.",
        )
    return proxy


class HandshakeGuard(httpcore.AsyncNetworkBackend):
    """Closes a connection whose TLS handshake is cancelled; httpcore 1.0 leaves it open."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect, and guard what comes of it."""
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _GuardedStream(stream)


class _GuardedStream(httpcore.AsyncNetworkStream):
    """A stream as it is, but for the handshake."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self.read = inner.read  # type: ignore[method-assign]  # passed on untouched, at no cost
        self.write = inner.write  # type: ignore[method-assign]  # as above
        self.aclose = inner.aclose  # type: ignore[method-assign]  # as above
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign]  # as above

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            await self._inner.aclose()
            raise
