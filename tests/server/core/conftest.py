"""LightRAG's real core over the stub model, on files and on a real PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from core_support import settings_over

from dsh_lightrag.demo.stub_model import StubModel
from dsh_lightrag.server.core import keeper_of


@pytest.fixture(scope="module")
def model():
    """The stub behind both models; a test that makes it fail sets it right again."""
    with StubModel() as stub:
        yield stub


@pytest.fixture(params=["files", "postgres"])
def settings(request, tmp_path, model):
    """Settings of a keeper on one of the storages, with nothing in it."""
    url = request.getfixturevalue("database_url") if request.param == "postgres" else ""
    return settings_over(tmp_path / "data", model, url)


@pytest.fixture
def on_files(tmp_path, model):
    """Settings of a keeper on files, for what does not depend on the storage."""
    return settings_over(tmp_path / "data", model)


@pytest.fixture
def keeping():
    """Keepers that are closed with their open workspaces, also when a test fails."""
    return _keeping


@asynccontextmanager
async def _keeping(settings):
    keeper = keeper_of(settings)
    opened = []

    async def opening(name):
        await keeper.create(name)
        opened.append(await keeper.open(name))
        return opened[-1]

    keeper.opening = opening
    try:
        yield keeper
    finally:
        for backend in opened:
            await backend.close()
        await keeper.close()


class Elsewhere:
    """A running `elsewhere.py`."""

    def __init__(self, process):
        self._process = process

    def said(self):
        """Return its first line: `open`, or why it could not."""
        return self._process.stdout.readline().strip()

    def end(self):
        """End it as an operator would; return what it wrote to its log."""
        return self._process.communicate(timeout=60)[1]

    def kill(self):
        self._process.kill()
        self._process.wait(30)


@pytest.fixture
def elsewhere():
    """Another process that opens a workspace; it ends, or is killed, with the test."""
    return _elsewhere


@contextmanager
def _elsewhere(settings, workspace, folder=None, **documents):
    told = {
        "data": str(settings.data),
        "url": settings.database_url,
        "chat": [settings.chat.url, settings.chat.model],
        "embedder": [settings.embedder.url, settings.embedder.model],
        "workspace": workspace,
        "documents": {f"{name}.md": text for name, text in documents.items()},
    }
    program = Path(__file__).with_name("elsewhere.py")
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, str(program), json.dumps(told)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    try:
        yield Elsewhere(process)
    finally:
        try:
            if process.poll() is None:
                process.communicate(timeout=60)  # closes its stdin, which ends it
        finally:
            process.kill()
            process.wait(30)
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()
