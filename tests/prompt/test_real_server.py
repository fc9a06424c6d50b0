"""Against the real LightRAG server: what it retrieves, what it has not, and its dead backend."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dsh_lightrag import Code, LightRagError, LightRagSettings
from dsh_lightrag.demo.server import LightRagServer
from dsh_lightrag.demo.stub_model import Backend
from dsh_lightrag.prompt import EmptyRetrievalError, KnowledgeMiddleware, PromptDocument
from dsh_lightrag.prompt.passages import passages

from .support import KEY, TASK, command, environment, run

EXAMPLES = Path(__file__).parents[2] / "examples" / "prompt"
HOST_AND_PORT = "http://127.0.0.1:9621"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)


def middleware(server, **row):
    keyed = {"endpoint": server.url, "api_key_env": "LIGHTRAG_API_KEY", "timeout": "1m"}
    return KnowledgeMiddleware({**keyed, **row})


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "naive", "mix"])
async def test_every_mode_retrieves_context_and_no_answer(lightrag, mode):
    document = await middleware(lightrag, mode=mode).aenhance(PromptDocument(TASK))
    prompt = document.render()
    assert prompt.startswith("[Knowledge Graph Context]\n")
    assert prompt.endswith(f"\n\n{TASK}")
    assert "polonium" in document.blocks[0].text.lower()
    assert "stub" not in prompt.lower()  # no model wrote any of it


async def test_a_cap_holds_on_a_real_context(lightrag):
    row = {"max_context_chars": 1000, "fence": True}
    text = (await middleware(lightrag, **row).aenhance(PromptDocument(TASK))).blocks[0].text
    assert len(text) <= 1000
    assert "characters left out" in text


async def test_an_index_with_nothing_is_an_empty_retrieval(model):
    with LightRagServer(model, api_key=KEY) as empty:
        document = PromptDocument(TASK)
        assert await middleware(empty).aenhance(document) == document
        with pytest.raises(EmptyRetrievalError):
            await middleware(empty, required=True).aenhance(document)


@pytest.mark.parametrize("mode", ["mix", "local"])
async def test_a_dead_language_model_is_an_error_and_its_text_in_no_prompt(lightrag, model, mode):
    # A question of its own: the server caches what it extracted from earlier ones.
    document = PromptDocument(f"Which element did {mode} Marie Curie name after Poland?")
    model.chat = Backend.UNAUTHORIZED
    try:
        assert await middleware(lightrag, mode=mode).aenhance(document) == document
        with pytest.raises(LightRagError) as caught:
            await middleware(lightrag, mode=mode, on_error="fail").aenhance(document)
    finally:
        model.chat = Backend.OK
    assert (caught.value.code, caught.value.status) == (Code.SERVER_ERROR, 200)
    assert not isinstance(caught.value, EmptyRetrievalError)


async def test_a_wrong_key_is_an_error(lightrag, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", "wrong")
    with pytest.raises(LightRagError) as caught:
        await middleware(lightrag, on_error="fail").aenhance(PromptDocument(TASK))
    assert caught.value.code is Code.UNAUTHORIZED


async def test_passages_name_their_document(lightrag):
    settings = LightRagSettings(endpoint=lightrag.url, query={"mode": "naive"})
    found = await passages(settings, TASK)
    assert found[0].file_path == "marie-curie.md"
    assert "polonium" in found[0].text.lower()
    assert found[0].chunk_id.startswith("doc-")
    assert [passage.rank for passage in found] == list(range(1, len(found) + 1))


# --- the examples -----------------------------------------------------------------------------


def test_the_example_pipeline_checks_and_shows(lightrag, tmp_path):
    text = (EXAMPLES / "pipeline.yaml").read_text(encoding="utf-8")
    assert HOST_AND_PORT in text
    path = tmp_path / "pipeline.yaml"
    text = text.replace("# api_key_env", "api_key_env")  # this server asks for a key
    path.write_text(text.replace(HOST_AND_PORT, lightrag.url), encoding="utf-8")
    assert run("pipeline", "check", str(path)).returncode == 0
    shown = run("pipeline", "show", str(path), "--task", "draft", "--trust")
    assert shown.returncode == 0
    prompt = shown.stdout.decode()
    assert prompt.startswith("[Knowledge Graph Context]\n<retrieved-")
    assert "marie-curie.md" in prompt
    assert prompt.endswith(
        ">\n\nWrite three sentences on who discovered polonium, and cite your sources."
    )


def test_the_example_pipe_feeds_a_driver_through_a_real_shell(lightrag, tmp_path):
    """The driver here is `tee`: what a model would read ends in a file."""
    installed = tmp_path / "bin"
    installed.mkdir()
    stand_in = installed / "dsh-lightrag"
    stand_in.write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n')
    stand_in.chmod(0o755)
    read_by_driver = tmp_path / "read"
    variables = environment(LIGHTRAG_ENDPOINT=lightrag.url, DRIVER=f"tee {read_by_driver}")
    subprocess.run(  # noqa: S603 - our own example
        [EXAMPLES / "augment.sh"],
        env={**variables, "PATH": f"{installed}:{variables['PATH']}"},
        stdout=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    prompt = read_by_driver.read_text(encoding="utf-8")
    assert prompt.startswith("[Knowledge Graph Context]\n<retrieved-")
    assert prompt.endswith(">\n\nWho discovered polonium?")
    assert "marie-curie.md" in prompt


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_python_example_is_short_runs_and_fences_what_it_retrieved(lightrag, path):
    # The example asks an anonymous server; this one is keyed.
    source = path.read_text(encoding="utf-8")
    lines = [line for line in source.splitlines()[1:] if line and "import " not in line]
    assert len(lines) <= 10
    keyed = source.replace('"fence": True', '"fence": True, "api_key_env": "LIGHTRAG_API_KEY"')
    ended = subprocess.run(  # noqa: S603 - our own example
        [sys.executable, "-c", keyed],
        capture_output=True,
        env=environment(LIGHTRAG_ENDPOINT=lightrag.url),
        timeout=100,
        check=True,
    )
    said = ended.stdout.decode()
    opening = said.partition(">")[0].rpartition("<")[2]
    assert opening.startswith("retrieved-")
    assert f"</{opening}>" in said
    assert "polonium" in said.lower().partition("</retrieved-")[0]
