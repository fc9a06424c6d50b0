"""Rules for every test of a face: asyncio, a clean environment, a real server, no key anywhere."""

from __future__ import annotations

import os
import signal

import pytest

from dsh_lightrag import LightRagSettings

from .server import KEY, KnowledgeServer


@pytest.fixture
def anyio_backend():
    """The frameworks are used on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No proxy and no LIGHTRAG_ variable of the machine takes part; no framework phones home."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("LIGHTRAG_", "LANG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


@pytest.fixture(autouse=True)
def key_in_no_log(capfd):
    """Whatever a host prints or logs, the key is not in it."""
    yield
    printed = capfd.readouterr()
    assert KEY not in printed.out + printed.err


@pytest.fixture
def server():
    """A server of LightRAG's shapes on a socket of its own."""
    with KnowledgeServer() as running:
        yield running


@pytest.fixture
def settings(server):
    """What a deployment sets: where, the key, and nothing else."""
    return LightRagSettings(endpoint=server.url, apiKey=KEY)


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts here and in new processes, even where it is ignored: in background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
