"""An empty base, with and without an embedder."""

from __future__ import annotations

import pytest
from hash_embedder import HashEmbedder

from dsh_lightrag.engine import Engine


@pytest.fixture
def embedder():
    return HashEmbedder()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.base"


@pytest.fixture
def engine(path):
    with Engine.open(path) as opened:
        yield opened
