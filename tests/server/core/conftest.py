"""LightRAG's real core over the stub model, on files and on a real PostgreSQL."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from dsh_lightrag.demo.stub_model import CHAT_MODEL, EMBEDDING_MODEL, StubModel
from dsh_lightrag.server.core import CoreSettings, keeper_of
from dsh_lightrag.server.models import Endpoint


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


def settings_over(folder, model, url=""):
    return CoreSettings(
        data=folder,
        chat=Endpoint(model.url, CHAT_MODEL),
        embedder=Endpoint(model.url, EMBEDDING_MODEL),
        database_url=url,
        # A bag of words lies farther from every question than a real embedding does.
        cosine_threshold=0.1,
        database_connections=8,
    )


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
