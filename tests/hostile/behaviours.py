"""What a hostile server does with a request.

The plain behaviours are used by name; the others are made by a function of what they should say.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import Behaviour, Exchange

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Headers = Iterable[tuple[str, str]]

# --- heads ---------------------------------------------------------------------------------------


def head(code: int, headers: Headers = ()) -> bytes:
    lines = [f"HTTP/1.1 {code} Hostile", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


JSON = ("Content-Type", "application/json")
CHUNKED = ("Transfer-Encoding", "chunked")


def _ok(length: int) -> bytes:
    return head(200, [JSON, ("Content-Length", str(length))])


# --- whole answers -------------------------------------------------------------------------------


def status(code: int, body: bytes = b"", headers: Headers = (JSON,)) -> Behaviour:
    answer = head(code, [*headers, ("Content-Length", str(len(body)))]) + body
    return lambda exchange: exchange.send(answer)


def json_body(raw: bytes) -> Behaviour:
    """Answer 200 with exactly these bytes as JSON."""
    return status(200, raw)


def json_value(value: Any, code: int = 200) -> Behaviour:
    return status(code, json.dumps(value).encode())


def redirect(code: int, location: str) -> Behaviour:
    return status(code, b"", [("Location", location)])


def encoded(coding: str, body: bytes) -> Behaviour:
    return status(200, body, [JSON, ("Content-Encoding", coding)])


def gzip_bomb(size: int = 64 * MIB) -> Behaviour:
    """A few kilobytes on the wire that unpack to `size`."""
    return encoded("gzip", gzip.compress(b" " * size))


def brotli_bomb() -> Behaviour:
    """Announce brotli. The bytes are none: a client that reads the header needs no decoder."""
    return encoded("br", b"\xce\xb2\xcf\x81\xe3" * 10_000)


# --- broken connections --------------------------------------------------------------------------


def reset_before_headers(exchange: Exchange) -> None:
    exchange.reset()


def reset_in_headers(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: appl")
    exchange.pause(0.05)  # a reset would overtake bytes that the client has not read yet
    exchange.reset()


def reset_in_body(exchange: Exchange) -> None:
    exchange.send(_ok(1000) + b'{"response": "half of an ans')
    exchange.pause(0.05)
    exchange.reset()


def closes_silently(exchange: Exchange) -> None:
    exchange.close()


def half_closes(exchange: Exchange) -> None:
    exchange.half_close()


def half_closes_in_body(exchange: Exchange) -> None:
    exchange.send(_ok(1000) + b'{"response": "half of an ans')
    exchange.half_close()


def short_body(body: bytes, missing: int = 10) -> Behaviour:
    """Announce more than is sent, then close: a body that is whole JSON and still too short."""

    def behave(exchange: Exchange) -> None:
        exchange.send(_ok(len(body) + missing) + body)
        exchange.close()

    return behave


def chunked_short(body: bytes) -> Behaviour:
    """Whole JSON in chunks, but without the last chunk: the body broke off."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head(200, [JSON, CHUNKED]) + b"%x\r\n%s\r\n" % (len(body), body))
        exchange.close()

    return behave


def chunked_lying(announced: bytes, sent: bytes) -> Behaviour:
    """One chunk whose announced length (as written on the wire) is not what follows."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head(200, [JSON, CHUNKED]) + announced + b"\r\n" + sent + b"\r\n0\r\n\r\n")
        exchange.close()

    return behave


def says(raw: bytes) -> Behaviour:
    """Send these bytes as they are, HTTP or not, and close."""

    def behave(exchange: Exchange) -> None:
        exchange.send(raw)
        exchange.close()

    return behave


# --- answers without an end ----------------------------------------------------------------------


def never_answers(exchange: Exchange) -> None:
    exchange.hold()


def stalls_in_headers(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: appl")
    exchange.hold()


def stalls_in_body(exchange: Exchange) -> None:
    exchange.send(_ok(1000) + b'{"response": "half of an ans')
    exchange.hold()


def drips(before: bytes, dripped: bytes, interval: float = 0.2) -> Behaviour:
    """Send some bytes at once, then one per interval: always progress, never an end."""

    def behave(exchange: Exchange) -> None:
        exchange.send(before)
        for byte in dripped:
            exchange.send(bytes([byte]))
            exchange.pause(interval)
        exchange.hold()

    return behave


def drips_headers(interval: float = 0.2) -> Behaviour:
    return drips(b"", b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 500, interval)


def drips_body(interval: float = 0.2) -> Behaviour:
    return drips(_ok(1000), b'{"response": "' + b"x" * 500, interval)


def endless(before: bytes, repeated: bytes, interval: float = 0.0) -> Behaviour:
    """Send the first bytes, then the second ones for ever."""

    def behave(exchange: Exchange) -> None:
        exchange.send(before)
        while True:
            exchange.send(repeated)
            if interval:
                exchange.pause(interval)

    return behave


def endless_headers(interval: float = 0.0) -> Behaviour:
    return endless(b"HTTP/1.1 200 OK\r\n", b"X-Padding: " + b"x" * 1000 + b"\r\n", interval)


def endless_body(code: int = 200) -> Behaviour:
    chunk = b"%x\r\n%s\r\n" % (64 * KIB, b" " * 64 * KIB)
    return endless(head(code, [JSON, CHUNKED]), chunk)


def endless_trailers() -> Behaviour:
    return endless(head(200, [JSON, CHUNKED]) + b"0\r\n", b"X-Padding: " + b"x" * 1000 + b"\r\n")


def endless_chunk_extension() -> Behaviour:
    return endless(head(200, [JSON, CHUNKED]) + b"1;padding=", b"x" * 1000)


def huge_body(size: int = GIB, code: int = 200) -> Behaviour:
    """Announce and send a body of `size` bytes, from one small buffer."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head(code, [JSON, ("Content-Length", str(size))]))
        block = b" " * (256 * KIB)
        for _ in range(size // len(block)):
            exchange.send(block)

    return behave


def informational_storm(count: int | None = None, then: Behaviour = never_answers) -> Behaviour:
    """Send 1xx answers, for ever or `count` times, before the real one."""
    one = head(103, [("Link", "</style.css>; rel=preload")])

    def behave(exchange: Exchange) -> None:
        if count is None:
            endless(b"", one * 100)(exchange)
        else:
            exchange.send(one * count)
            then(exchange)

    return behave
