"""Who may ask: the key of X-API-Key, and the guest tokens that LightRAG's web pages carry.

As with LightRAG without accounts: a bearer token that is not ours is refused even beside the right
key; a guest token opens a server that needs no key, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from dsh_lightrag.server.refusal import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable

GUEST_HOURS = 24
_HEADER = {"alg": "HS256", "typ": "JWT"}


class _Claims(BaseModel):
    """What a guest token says."""

    exp: float


@dataclass(frozen=True, slots=True)
class Credentials:
    """The key of a server, if it has one, and the secret that signs its guests' tokens."""

    api_key: str = field(default="", repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    clock: Callable[[], float] = time.time

    def check(self, *, key: str, authorization: str) -> None:
        """Let a request pass, or not.

        Raises:
            RefusalError: with the status and the words of LightRAG.
        """
        token = _bearer(authorization)
        if token and not self._is_ours(token):
            raise RefusalError(401, "Invalid token")
        if not self.api_key:
            return
        if not key:
            raise RefusalError(403, "API Key required")
        if not hmac.compare_digest(key.encode("latin-1", "replace"), self.api_key.encode()):
            raise RefusalError(403, "Invalid API Key")

    def guest_token(self) -> str:
        """Return a token (JWT) as LightRAG gives to whoever asks."""
        claims = {
            "sub": "guest",
            "exp": int(self.clock()) + GUEST_HOURS * 3600,
            "role": "guest",
            "metadata": {"auth_mode": "disabled"},
        }
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (_HEADER, claims))
        return f"{signed}.{_encoded(self._signature(signed))}"

    def _is_ours(self, token: str) -> bool:
        """Tell whether we signed a token that has not run out; its header is not believed."""
        signed, _, signature = token.rpartition(".")
        try:
            given = _decoded(signature)
            claims = _Claims.model_validate_json(_decoded(signed.partition(".")[2]))
        except (binascii.Error, UnicodeEncodeError, ValidationError):
            return False
        ours = hmac.compare_digest(given, self._signature(signed))
        return ours and claims.exp > self.clock()

    def _signature(self, signed: str) -> bytes:
        return hmac.digest(self.secret, signed.encode(), "sha256")


def _bearer(authorization: str) -> str:
    """Return the token of a bearer header; other schemes count as no credentials."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
