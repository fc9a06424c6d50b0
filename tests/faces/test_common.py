from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from dsh_lightrag import MissingExtraError
from dsh_lightrag.faces import langchain
from dsh_lightrag.faces.common import Desk

from .server import WAIT_S

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
FRAMEWORKS = {
    "langchain": "langchain_core.tools",
    "pydantic-ai": "pydantic_ai",
    "openai-agents": "agents",
    "claude-agent": "claude_agent_sdk",
    "llama-index": "llama_index.core.tools",
    "llm": "llm",
}


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_a_missing_framework_is_told_by_its_extra(extra, monkeypatch):
    face = f"dsh_lightrag.faces.{extra.replace('-', '_')}"
    monkeypatch.setitem(sys.modules, FRAMEWORKS[extra], None)
    monkeypatch.delitem(sys.modules, face, raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'dsh-lightrag\[{extra}\]'"):
        importlib.import_module(face)


def test_every_face_has_its_extra_bounded_above_and_part_of_all():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for extra in FRAMEWORKS:
        assert all(",<" in requirement for requirement in extras[extra])
        assert extra in extras["all"][0]


def test_nothing_of_a_framework_is_imported_before_its_face():
    loaded = set(sys.modules)
    assert "dsh_lightrag.faces.common" in loaded
    source = (Path(langchain.__file__).parent / "common.py").read_text()
    assert not any(module.split(".")[0] in source for module in FRAMEWORKS.values())


async def test_connections_stay_open_until_the_last_user_leaves(server, settings):
    desk = Desk(settings)
    desk.enter()
    desk.enter()
    await desk.ask("dsh_lightrag_query", {"question": "Who found polonium?"})
    await desk.leave()
    await desk.ask("dsh_lightrag_query", {"question": "Who found polonium?"})
    assert server.connections == 1
    assert not server.idle_left.is_set()
    await desk.leave()
    assert await asyncio.to_thread(server.idle_left.wait, WAIT_S)


def test_a_list_of_tools_can_be_closed_without_await(server, settings):
    with langchain.tools(settings) as tools:
        tools[0].invoke({"question": "Who found polonium?"})
    assert server.idle_left.wait(WAIT_S)
    tools.close()
    assert tools[0].invoke({"question": "Who found polonium?"})  # opens again
    tools.close()


async def test_a_list_of_tools_closes_both_kinds_of_connections(server, settings):
    async with langchain.tools(settings) as tools:
        await tools[0].ainvoke({"question": "Who found polonium?"})
        tools[0].invoke({"question": "Who found polonium?"})
        assert server.connections == 2
    assert "dsh-lightrag" not in [thread.name for thread in threading.enumerate()]
    await tools.aclose()
