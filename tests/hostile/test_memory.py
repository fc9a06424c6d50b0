"""Memory: an over-cap body costs its cap at most, the worst accepted answer a bounded multiple."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from dsh_lightrag import Code

from . import behaviours as hostile
from .behaviours import GIB, KIB, MIB, json_body, json_value
from .replies import ARGUMENTS, REPLIES
from .server import HostileServer
from .support import KEY

PROBE = Path(__file__).with_name("memory_probe.py")
CAP = 2 * MIB

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the peak is read from /proc"
)


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """One process for all measurements; what it logs is looked through at the end."""
    log = tmp_path_factory.mktemp("probe") / "stderr"
    with (
        log.open("w", encoding="utf-8") as stderr,
        subprocess.Popen(  # noqa: S603 - our own program, under this interpreter
            [sys.executable, PROBE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        yield process
    assert KEY not in log.read_text(encoding="utf-8")


async def growth(probe, behaviour, route="POST /query", timeout_ms=20_000):
    """Answer the first request well and the second one badly; return what was measured."""
    tool, reply = REPLIES[route]
    requests = itertools.count()

    def behave(exchange):
        (behaviour if next(requests) else json_value(reply))(exchange)

    def measure(case):
        probe.stdin.write(json.dumps(case) + "\n")
        probe.stdin.flush()
        return probe.stdout.readline()

    with HostileServer({route: behave, "GET /health": json_value({"status": "ok"})}) as server:
        row = {
            "endpoint": server.url,
            "apiKey": KEY,
            "timeoutMs": timeout_ms,
            "evidence": {"enabled": True},
            "documents": {"maxListed": 1000},
        }
        measurement = await anyio.to_thread.run_sync(measure, [row, tool, ARGUMENTS[tool]])
    return json.loads(measurement)


STREAMS = {
    "1 GiB": (hostile.huge_body(GIB), Code.TOO_LARGE),
    "endless chunks": (hostile.endless_body(), Code.TOO_LARGE),
    "1 GiB of error": (hostile.huge_body(GIB, 500), Code.SERVER_ERROR),
    "endless error": (hostile.endless_body(422), Code.INVALID_ARGUMENT),
    "gzip bomb": (hostile.gzip_bomb(), Code.BAD_RESPONSE),
    "gzip bomb with an error": (
        hostile.status(500, b"\x1f\x8b" * 9000, [("Content-Encoding", "gzip")]),
        Code.SERVER_ERROR,
    ),
    "endless headers": (hostile.endless_headers(), Code.UNREACHABLE),
    "endless trailers": (hostile.endless_trailers(), Code.UNREACHABLE),
    "endless chunk extension": (hostile.endless_chunk_extension(), Code.UNREACHABLE),
    "1xx storm": (hostile.informational_storm(), Code.TIMEOUT),
    "chunks of one byte": (
        hostile.endless(hostile.head(200, [hostile.CHUNKED]), b"1\r\n \r\n" * 10_000),
        None,
    ),
}


@pytest.mark.parametrize(("behaviour", "code"), STREAMS.values(), ids=STREAMS)
async def test_a_stream_over_the_cap_grows_memory_by_8_mib_at_most(behaviour, code, probe):
    result = await growth(probe, behaviour, timeout_ms=2000)
    assert result["grown_mib"] <= 8
    if code is not None:
        assert result["code"] == code
    else:
        assert result["code"] in {Code.TOO_LARGE, Code.TIMEOUT}


def filled(before: str, item: str, after: str, size: int = CAP) -> bytes:
    """Return `before`, as many items as fit with commas between, and `after`."""
    count = (size - len(before.encode()) - len(after.encode())) // (len(item.encode()) + 1)
    return (before + ",".join([item] * count) + after).encode()


def numbered(before: str, after: str) -> bytes:
    """Return an object of as many different keys as fit."""
    pairs = ",".join(f'"{number:x}":0' for number in range(CAP // 11))
    return (before + "{" + pairs + "}" + after).encode()


# The word NaN in a string must not cost an honest answer more than another word.
FINE = {
    "": '{"response":"fine","ignored":',
    " beside NaN": '{"response":"NaN is no number","ignored":',
}
DATA = '{"status":"success","metadata":{},"data":{"entities":[],"ignored":'
IGNORED = {
    "empty lists": "[]",
    "empty objects": "{}",
    "small integers": "0",
    "floats": "1.5",
    "huge integers": "9" * 30,
    "empty strings": '""',
    "one-letter strings": '"\u00e9"',
    "lists of one": "[0]",
    "objects of one": '{"":0}',
    "deep lists": "[" * 150 + "]" * 150,
    "deep objects": '{"":' * 150 + "0" + "}" * 150,
}
WORST = {
    **{
        f"ignored: {name}{beside}": ("POST /query", filled(f"{before}[", item, "]}"))
        for name, item in IGNORED.items()
        for beside, before in FINE.items()
    },
    "ignored: different keys": ("POST /query", numbered(FINE[""], "}")),
    "ignored: one key again and again": ("POST /query", filled(FINE[""] + "{", '"a":[]', "}}")),
    "answer: ASCII": ("POST /query", b'{"response":"' + b"a" * (CAP - 20) + b'"}'),
    "answer: ASCII and one emoji": (
        "POST /query",
        '{"response":"\U0001f600'.encode() + b"a" * (CAP - 40) + b'"}',
    ),
    "answer: controls": ("POST /query", b'{"response":"' + b"\\u0001" * (CAP // 6 - 9) + b'"}'),
    "answer: line breaks": ("POST /query", b'{"response":"' + b"\\r" * (CAP // 2 - 9) + b'"}'),
    "answer: the key": (
        "POST /query",
        f'{{"response":"{KEY * (CAP // len(KEY) - 9)}"}}'.encode(),
    ),
    "references: empty": ("POST /query", filled('{"response":"","references":[', "{}", "]}")),
    "references: with empty chunks": (
        "POST /query",
        filled('{"response":"","references":[', '{"content":[]}', "]}"),
    ),
    "chunks: empty": (
        "POST /query",
        filled('{"response":"","references":[{"content":[', '""', "]}]}"),
    ),
    "references: bad after many": (
        "POST /query",
        filled('{"response":"","references":[', "{}", ",7]}"),
    ),
    "references: all bad": ("POST /query", filled('{"response":"","references":[', "7", "]}")),
    "path of line breaks": (
        "POST /query",
        b'{"response":"","references":[{"file_path":"' + b"\\n" * (CAP // 2 - 40) + b'"}]}',
    ),
    "data: ignored": ("POST /query/data", filled(DATA + "[", "[]", "]}}")),
    "data: entities": (
        "POST /query/data",
        filled('{"status":"success","data":{"entities":[', '{"entity_name":""}', "]}}"),
    ),
    "data: references": (
        "POST /query/data",
        filled('{"status":"success","data":{"references":[', "{}", "]}}"),
    ),
    "data: chunks": (
        "POST /query/data",
        filled('{"status":"success","data":{"chunks":[', '{"content":""}', "]}}"),
    ),
    "data: keywords": (
        "POST /query/data",
        filled('{"status":"success","data":{},"metadata":{"keywords":{"low_level":[', '""', "]}}}"),
    ),
    "documents: small rows": (
        "POST /documents/paginated",
        filled('{"documents":[', '{"id":"","status":""}', "]}"),
    ),
    "documents: empty objects": ("POST /documents/paginated", filled('{"documents":[', "{}", "]}")),
    "documents: counts": (
        "POST /documents/paginated",
        numbered('{"documents":[],"status_counts":', "}"),
    ),
    "counts": ("GET /documents/status_counts", numbered('{"status_counts":', "}")),
}


@pytest.mark.parametrize(("route", "body"), WORST.values(), ids=WORST)
async def test_the_worst_accepted_answer_grows_memory_by_64_mib_at_most(route, body, probe):
    """Whether it is taken or refused: what it costs is bounded."""
    assert CAP - 400 * KIB < len(body) <= CAP
    result = await growth(probe, json_body(body), route)
    assert result["code"] in {None, Code.BAD_RESPONSE, Code.TOO_LARGE}
    assert result["grown_mib"] <= 64
    assert result["seconds"] <= 5, "while one answer is parsed, nothing else in the loop runs"
