"""Probes below HTTP: does a name resolve, does a port answer, is its certificate trusted?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_lightrag.transport import reason_of

if TYPE_CHECKING:
    import ssl

PROBE_S = 5.0
LOOPBACKS = ("127.0.0.1", "::1")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_CONTAINER_VARIABLE = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether an address answered, and why not."""

    address: str
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.address}: {self.fault or 'answers'}"


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the system's order of preference.

    Raises:
        OSError: it does not resolve.
        TimeoutError: the name servers are silent.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PROBE_S):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def knock(address: str, port: int) -> Answer:
    """Open a connection to one address and close it."""
    try:
        async with asyncio.timeout(PROBE_S):
            _, writer = await asyncio.open_connection(address, port)
    except OSError as error:  # a TimeoutError is one
        return Answer(address, _told(error))
    await _close(writer)
    return Answer(address)


async def knock_all(addresses: list[str], port: int) -> list[Answer]:
    """Try several addresses at once."""
    return list(await asyncio.gather(*(knock(address, port) for address in addresses)))


async def shake_hands(address: str, port: int, host: str, context: ssl.SSLContext) -> str:
    """Do a TLS handshake and return until when the certificate is valid.

    Raises:
        OSError: it failed; an `ssl.SSLCertVerificationError` carries OpenSSL's verdict.
        TimeoutError: the server is silent.
    """
    async with asyncio.timeout(PROBE_S):
        _, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=host)
    certificate = writer.get_extra_info("peercert") or {}
    await _close(writer)
    return str(certificate.get("notAfter", "unknown"))


def proxy_variables() -> list[str]:
    """Return the names of the proxy variables that are set; their values may hold passwords."""
    return [
        name for upper in PROXY_VARIABLES for name in (upper, upper.lower()) if os.environ.get(name)
    ]


def in_container() -> bool:
    """Say whether this process seems to run in a container, whose loopback is its own."""
    return _CONTAINER_VARIABLE in os.environ or any(mark.exists() for mark in _CONTAINER_MARKS)


def _told(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"silent for {PROBE_S:g} s"
    reason = reason_of(error)
    return error.strerror or reason if reason == type(error).__name__ else reason


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            await writer.wait_closed()
