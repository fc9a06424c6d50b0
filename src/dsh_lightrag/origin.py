"""The one address that requests may go to: a bare http(s) origin, normalised.

Errors show scheme and host only: an endpoint is often pasted with its credentials.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(?i)(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#\\]*)(?P<rest>.*)")
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,62})"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?")
_MAX_PORT = 65535
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_BARE = "Write a bare origin: http://host:port or https://host:port."


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host (lower case, IPv6 without brackets) and port; `str()` drops a default port."""

    scheme: str
    host: str
    port: int

    @property
    def host_header(self) -> str:
        """The host as a URL writes it, with its port unless that is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether traffic stays on this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}"


def parse_origin(text: str) -> Origin:
    """Parse a bare origin.

    Raises:
        ValueError: naming the rule that the text breaks and, at most, its scheme and host.
    """
    match = _AUTHORITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"has no scheme. {_BARE}")
    scheme, authority, rest = match["scheme"].lower(), match["authority"], match["rest"]
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"has the scheme {scheme[:20]!r}, only http and https work. {_BARE}")
    address = _HOST_AND_PORT.fullmatch(authority.rpartition("@")[2])
    host = _host(address["host"]) if address else None
    if address is None or host is None:
        raise ValueError(f"has no valid host after {scheme}://. {_BARE}")
    for present, rule in (
        ("@" in authority, "carries credentials. Give the key as apiKey"),
        (rest.startswith("\\"), "holds a backslash"),
        (rest.startswith("/") and re.split(r"[?#]", rest)[0] != "/", "has a path. Set basePath"),
        ("?" in rest, "has a query"),
        ("#" in rest, "has a fragment"),
    ):
        if present:
            raise ValueError(f"{rule} ({scheme}://{address['host'].lower()}). {_BARE}")
    port = int(address["port"] or DEFAULT_PORTS[scheme])
    if not 0 < port <= _MAX_PORT:
        raise ValueError(f"has a port outside 1..65535 ({scheme}://{host}). {_BARE}")
    return Origin(scheme, host, port)


def _host(text: str) -> str | None:
    """Return a host in its normal form, or None when it is none."""
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            return None
        return None if address.scope_id else address.compressed
    lowered = text.lower()
    if not _NAME.fullmatch(lowered):
        return None
    if lowered.rstrip(".").rpartition(".")[2].isdigit():  # an address, or nothing at all
        try:
            return str(ipaddress.IPv4Address(lowered))
        except ValueError:
            return None
    return lowered if _is_idna(lowered) else None


def _is_idna(host: str) -> bool:
    """Say whether the `xn--` labels of a host can be read; httpx refuses those that cannot."""
    if "xn--" not in host:
        return True
    import idna  # noqa: PLC0415 - httpx brings it; few endpoints need it

    try:
        idna.decode(host)
    except idna.IDNAError:
        return False
    return True


def parse_base_path(text: str) -> str:
    """Parse a fixed path prefix: empty, or `/segment/…` without a trailing slash.

    Raises:
        ValueError: naming the rule.
    """
    path = text.removesuffix("/")
    if not path:
        return ""
    segments = path.split("/")
    if segments[0] or not all(
        _SEGMENT.fullmatch(segment) and segment.strip(".") for segment in segments[1:]
    ):
        raise ValueError(
            "must be a path of plain segments. Use letters, digits, '-', '.', '_' and '~', "
            "as in /lightrag."
        )
    return path
