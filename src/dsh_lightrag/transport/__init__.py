"""The plugin's only HTTP: a door to one origin, its connection pool, its failures as tables."""

from __future__ import annotations

from dsh_lightrag.transport.door import MAX_RESPONSE_BYTES, OriginLock, Transport
from dsh_lightrag.transport.failures import (
    EXCEPTION_CODES,
    STATUS_CODES,
    code_of_exception,
    code_of_status,
    reason_of,
)
from dsh_lightrag.transport.pool import proxy_of, tls_context

__all__ = [
    "EXCEPTION_CODES",
    "MAX_RESPONSE_BYTES",
    "STATUS_CODES",
    "OriginLock",
    "Transport",
    "code_of_exception",
    "code_of_status",
    "proxy_of",
    "reason_of",
    "tls_context",
]
