"""A gateway over a real database and a real knowledge server, all of them listening."""

from __future__ import annotations

import gateway_support
import pytest


@pytest.fixture
async def knowledge(tmp_path):
    """A knowledge server of a test's own; settings to reach it with."""
    async with gateway_support.knowledge_server(tmp_path / "knowledge") as settings:
        yield settings


@pytest.fixture
async def gateway(migrated_url, knowledge):
    """A gateway that listens."""
    async with gateway_support.gateway(migrated_url, knowledge) as running:
        yield running
