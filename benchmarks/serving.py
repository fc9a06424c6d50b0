"""What the benchmarks over HTTP share: our server as a process, documents, waiting, quantiles."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import httpx

_URL = re.compile(r"http://[\d.]+:\d+")
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
PATIENCE_S = 600.0


class Texts:
    """Texts of made-up words by Zipf's law, three names in each paragraph; alike in every run."""

    def __init__(self, seed: int = 5, vocabulary: int = 5000) -> None:
        self._random = np.random.default_rng(seed)
        made = {"".join(three) for three in self._random.choice(_SYLLABLES, (3 * vocabulary, 3))}
        self._words = np.array(sorted(made)[:vocabulary])
        self._random.shuffle(self._words)
        rank = np.arange(1, len(self._words) + 1)
        self._likely = (1 / rank) / (1 / rank).sum()

    def name(self) -> str:
        """Return one of the names."""
        first, last = self._random.choice(self._words[-400:], 2)
        return f"{first.title()} {last.title()}"

    def text(self, paragraphs: int = 2, words: int = 70) -> str:
        """Return a document's text."""
        parts = []
        for _ in range(paragraphs):
            part = list(self._random.choice(self._words, words, p=self._likely))
            for place in (5, 30, 55):
                part[place] = f"with {self.name()}"
            parts.append(" ".join(part) + ".")
        return "\n\n".join(parts)

    def question(self) -> str:
        """Return a question with one name and four words."""
        likely = self._likely[20:] / self._likely[20:].sum()
        words = self._random.choice(self._words[20:], 4, p=likely)
        return f"{' '.join(words)} {self.name()}?"


@contextmanager
def our_server(data: Path, *flags: str) -> Iterator[tuple[str, int]]:
    """Yield URL and process id of `dsh-lightrag serve` over a folder."""
    log = tempfile.TemporaryFile(mode="w+", encoding="utf-8")  # noqa: SIM115 - closed below
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "dsh_lightrag", "serve", "--data", data, "--port", "0", *flags],
        stdout=log,
        stderr=log,
        env=os.environ | {"COLUMNS": "500", "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield _listening(process, log), process.pid
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def _listening(process: subprocess.Popen[bytes], log: Any) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        log.seek(0)
        told = log.read()
        if found := _URL.search(told):
            return found[0]
        if process.poll() is not None:
            raise SystemExit(f"the server ended:\n{told}")
        time.sleep(0.05)
    raise SystemExit(f"the server did not begin:\n{told}")


def insert(client: httpx.Client, texts: Sequence[str], first: int = 0) -> None:
    """Hand over documents, twenty in one request."""
    for start in range(0, len(texts), 20):
        batch = list(texts[start : start + 20])
        names = [f"doc-{first + start + place}.md" for place in range(len(batch))]
        body = {"texts": batch, "file_sources": names}
        client.post("/documents/texts", json=body).raise_for_status()


def wait_until_processed(client: httpx.Client, documents: int) -> None:
    """Return when so many documents are processed; end the benchmark if one failed."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        counts = client.get("/documents/status_counts").raise_for_status().json()["status_counts"]
        counts = {str(status).lower(): count for status, count in counts.items()}
        if counts.get("failed"):
            raise SystemExit(f"a document failed: {counts}")
        if counts.get("processed", 0) >= documents:
            return
        time.sleep(0.5)
    raise SystemExit(f"not all were processed in {PATIENCE_S:.0f} s: {counts}")


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile in milliseconds."""
    p50, p95 = np.percentile(1000 * np.array(seconds), [50, 95])
    return float(p50), float(p95)


def machine() -> str:
    """Return what a figure was measured on."""
    return f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
