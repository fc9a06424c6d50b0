"""Measure by how much one tool call raises the peak of memory.

Run as a program, so that the peak is of the client alone: the hostile server stays in the test's
process. Each line of stdin is a case; each is measured in a fork of its own, which starts from the
same memory, and answered by one line. A case calls its tool twice: the first call loads what is
loaded late, and the server answers it well.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import dsh_lightrag.transport  # so that no fork has to import it anew
from dsh_lightrag import LightRagError, LightRagSettings, toolbox

PROCESS = Path("/proc/self")


def peak_kib() -> int:
    (line,) = [
        line
        for line in (PROCESS / "status").read_text(encoding="ascii").splitlines()
        if line.startswith("VmHWM:")
    ]
    return int(line.split()[1])


def forget_the_peak() -> None:
    (PROCESS / "clear_refs").write_text("5", encoding="ascii")


async def measured(row: dict[str, Any], tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    async with toolbox(LightRagSettings(**row)) as tools:
        await tools.call(tool, arguments)
        gc.collect()
        forget_the_peak()
        before = peak_kib()
        code = None
        started = time.monotonic()
        try:
            outcome = await tools.call(tool, arguments)
        except LightRagError as error:
            code = error.code
        else:
            json.dumps(outcome.structured)
        return {
            "code": code,
            "grown_mib": (peak_kib() - before) / 1024,
            "seconds": time.monotonic() - started,
        }


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            result = asyncio.run(measured(*json.loads(line)))
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit("a measurement failed")


if __name__ == "__main__":
    assert dsh_lightrag.transport
    main()
