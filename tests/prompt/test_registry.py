from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dsh_lightrag import ConfigurationError
from dsh_lightrag.prompt import KnowledgeMiddleware, PromptDocument
from dsh_lightrag.prompt.registry import GROUP, factory_of

from .support import ENDPOINT

MODULE = """
from dsh_lightrag.prompt import ContextBlock

class Stamp:
    destinations = ("http://stamps.example",)
    def __init__(self, row):
        self.text = row["text"]
    async def aenhance(self, document):
        return document.with_block(ContextBlock("Stamp", self.text))

def make(row, allowed_key_variables):
    return Stamp(row)
"""


@pytest.fixture
def stamps(tmp_path, monkeypatch):
    """An installed package `Stamp_Pack` that adds the type `stamp`, and claims `lightrag`."""
    metadata = tmp_path / "stamp_pack-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: Stamp_Pack\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{GROUP}]\nstamp = stamp_pack:make\nlightrag = stamp_pack:make\nbroken = no_module:make\n"
    )
    (tmp_path / "stamp_pack.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("stamp_pack", None)


def refused(kind, plugins=()):
    with pytest.raises(ConfigurationError) as caught:
        factory_of(kind, plugins)
    assert caught.value.key == "type"
    return caught.value


def test_our_own_type_is_there_without_any_plugin():
    middleware = factory_of("lightrag", [])({"endpoint": ENDPOINT}, ())
    assert isinstance(middleware, KnowledgeMiddleware)
    assert middleware.destinations == (ENDPOINT,)


def test_the_entry_point_of_this_package_names_the_same_factory():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    declared = project["project"]["entry-points"][GROUP]
    for name, value in declared.items():
        assert EntryPoint(name, value, GROUP).load() is factory_of(name, [])


@pytest.mark.usefixtures("stamps")
async def test_another_package_adds_a_type_once_it_is_listed():
    stamp = factory_of("stamp", ["stamp-pack"])({"text": "seen"}, ())
    assert (await stamp.aenhance(PromptDocument("Go."))).render() == "[Stamp]\nseen\n\nGo."


@pytest.mark.usefixtures("stamps")
def test_a_package_that_is_not_listed_is_not_even_imported():
    assert refused("stamp").mend == "List stamp-pack under plugins."
    assert "stamp_pack" not in sys.modules


@pytest.mark.usefixtures("stamps")
def test_no_package_can_take_our_own_type_over():
    made = factory_of("lightrag", ["stamp-pack"])({"endpoint": ENDPOINT}, ())
    assert isinstance(made, KnowledgeMiddleware)


@pytest.mark.usefixtures("stamps")
def test_a_package_that_cannot_be_imported_is_named():
    assert "stamp-pack" in refused("broken", ["stamp_pack"]).problem


def test_an_unknown_type_is_refused_with_the_nearest_one():
    assert refused("lightrg").mend == "Did you mean lightrag?"
    assert "Known: lightrag" in refused("zzz").mend
