"""Who may come in over HTTP: the Host and Origin of every request, and its bearer token.

Host and Origin are checked always, wildcard addresses included: a web page whose name was made
to point at this machine (DNS rebinding) carries its own name in both.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.guard import LOOPBACK
from dsh_lightrag.listening import ANY_ADDRESS, as_written
from dsh_lightrag.origin import Origin

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?:[0-9]{1,5}|\*))?")
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]*://{_HOST.pattern}")
_NAME = re.compile(r"[A-Za-z0-9._-]{0,253}")
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Door:
    """Where the server listens and whom it lets in.

    Attributes:
        host: the address to listen on.
        port: the port; 0 takes a free one.
        hosts: names that the Host header may hold besides the server's own.
        origins: what the Origin header may hold besides the addresses of those hosts.
        tokens: bearer tokens, any of which admits; none is needed on loopback.

    Raises:
        ConfigurationError: a host that is none; no token off loopback; a token, host or origin
            that cannot match.
    """

    host: str
    port: int
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _can_be_listened_on(self.host):
            raise ConfigurationError(
                "--host", "is neither a name nor an address.", "Write one, as 127.0.0.1 or ::1."
            )
        if not self.tokens and not Origin("http", self.host, self.port).is_loopback:
            raise ConfigurationError(
                "--host", "is not loopback, so a bearer token is required.", "Set --token-env NAME."
            )
        for flag, rule, values in (
            ("--allowed-host", _HOST, self.hosts),
            ("--allowed-origin", _ORIGIN, self.origins),
        ):
            if not all(rule.fullmatch(value) for value in values):
                raise ConfigurationError(
                    flag, "matches no header.", "Write name, name:port or name:*, and no path."
                )
        if not all(_TOKEN.fullmatch(token) for token in self.tokens):
            raise ConfigurationError(
                "--token-env", "The token holds blanks or other than ASCII.", "Make another one."
            )

    @property
    def security(self) -> TransportSecuritySettings:
        """The headers that are let in, as the SDK reads them; every port of a bare name."""
        local = self.host in ANY_ADDRESS or Origin("http", self.host, self.port).is_loopback
        names = [*(LOOPBACK if local else (as_written(self.host),)), *self.hosts]
        hosts = [pattern for name in names for pattern in _patterns(name)]
        origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
        return TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[*origins, *self.origins]
        )


def _can_be_listened_on(host: str) -> bool:
    if _NAME.fullmatch(host):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _patterns(name: str) -> tuple[str, ...]:
    """Return a name that has its port as it is, and a bare one with and without any port."""
    return (name,) if re.search(r":(?:[0-9]+|\*)$", name) else (name, f"{name}:*")


class Doorman:
    """Checks Host and Origin of every request, whatever its path, before anything else does."""

    def __init__(self, app: ASGIApp, security: TransportSecuritySettings) -> None:
        self._app = app
        self._check = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on."""
        if scope["type"] == "http":
            refusal = await self._check.validate_request(Request(scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


class KnownTokens:
    """Verifies bearer tokens against those of this deployment, in constant time.

    The client's name is a digest of its token, so that a session stays with the token that
    opened it.
    """

    def __init__(self, tokens: tuple[str, ...]) -> None:
        self._digests = [sha256(token.encode()).hexdigest() for token in tokens]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who holds the token, or None."""
        digest = sha256(token.encode()).hexdigest()
        known = [hmac.compare_digest(digest, one) for one in self._digests]
        return AccessToken(token=token, client_id=digest, scopes=[]) if any(known) else None
