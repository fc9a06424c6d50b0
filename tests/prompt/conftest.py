"""Rules for the tests of the prompt room: asyncio, and nothing of this machine takes part."""

from __future__ import annotations

import os

import pytest

from .support import RawServer


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No proxy, no LIGHTRAG_ variable and no remembered trust of the machine takes part."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.upper().startswith("LIGHTRAG_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def server():
    with RawServer() as running:
        yield running
