"""What models are told of each tool: rules for all of them, and a snapshot to review by diff.

`python tests/test_tool_definitions.py` writes the snapshot anew.
"""

from __future__ import annotations

import json
import re

import pytest

from dsh_lightrag import TOOLS, Access
from dsh_lightrag.bounds import Bounds
from dsh_lightrag.dispatch import BOUNDARIES
from dsh_lightrag.question import TOP_K
from dsh_lightrag.settings import LightRagSettings

NAMES = {tool.name for tool in TOOLS}
# LlamaIndex refuses more, and so do some model providers; our own promise is 1200.
MAX_DESCRIPTION = 1024
MAX_NAME = 40
# No limit but what makes pydantic look for lone surrogates; see `Args`.
UNICODE_CHECK = str(2**31)
ROOT_KEYWORDS = {"type", "properties", "required", "additionalProperties"}
PROPERTY_KEYWORDS = {"type", "enum", "description", "default", "items"}

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def arguments_of(tool):
    """Return every argument of a tool by its path, nested ones too."""
    found = {}

    def walk(schema, prefix):
        for name, inner in schema["properties"].items():
            found[f"{prefix}{name}"] = inner
            if "properties" in inner.get("items", {}):
                walk(inner["items"], f"{prefix}{name}.")

    walk(tool.input_schema, "")
    return found


@every_tool
def test_the_name_fits_every_host(tool):
    assert re.fullmatch(r"[a-z][a-z_]*", tool.name)
    assert len(tool.name) <= MAX_NAME
    assert 0 < len(tool.title) <= MAX_NAME


@every_tool
def test_the_description_fits_every_host_and_ends_with_the_boundaries(tool):
    assert len(tool.description) <= MAX_DESCRIPTION
    assert tool.description.endswith(f". {BOUNDARIES}")
    assert tool.description.count(BOUNDARIES) == 1
    assert "\n" not in tool.description
    assert "  " not in tool.description


@every_tool
def test_the_description_answers_what_when_instead_and_what_comes_back(tool):
    """The verb comes first; siblings that exist are named; so is every part of the result."""
    first = tool.summary.split()[0]
    assert first in {"Ask", "List", "Check", "Retrieve", "Add", "Make", "Delete"}
    assert re.search(r"\bUse it\b", tool.summary)
    siblings = set(re.findall(r"dsh_lightrag_\w+", tool.description))
    assert siblings - {tool.name}
    assert siblings <= NAMES
    returned = tool.summary.partition("Returns ")[2]
    for part in tool.output_schema["properties"]:
        # A count that stands next to what it counts is told as a count of each.
        counted = part.endswith("Count") and "a count of each" in returned
        assert counted or part in returned, part


@every_tool
def test_the_description_tells_effects_cost_and_asynchrony(tool):
    reads = tool.access is Access.READ
    assert ("Read-only" in tool.summary or "no side effects" in tool.summary) is reads
    assert re.search(r"language-model call|seconds to minutes", tool.summary)
    assert bool(re.search(r"\basynchronous", tool.summary, re.IGNORECASE)) is not reads
    assert ("Destructive" in tool.summary) is tool.destructive


@every_tool
def test_every_argument_is_described_beyond_its_type(tool):
    for path, schema in arguments_of(tool).items():
        assert len(schema["description"]) >= len("Who spoke: user or assistant."), path
        assert schema["description"].endswith("."), path
        if path in tool.input_schema["properties"]:
            optional = path not in tool.input_schema["required"]
            told = re.search(r"Absent|false:|Passed on|otherwise as", schema["description"])
            assert not optional or told, path


@every_tool
def test_every_part_of_the_result_is_described(tool):
    for name, schema in tool.output_schema["properties"].items():
        assert schema.get("description"), name


@every_tool
def test_schemas_stay_in_the_subset_that_every_host_takes(tool):
    schema = tool.input_schema
    assert set(schema) == ROOT_KEYWORDS
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    for path, inner in arguments_of(tool).items():
        assert set(inner) <= PROPERTY_KEYWORDS, path
        assert isinstance(inner["type"], str), path
        assert (inner["type"] == "array") == ("items" in inner), path
    told = json.dumps([schema, tool.output_schema])
    for refused in ('"$ref"', '"$defs"', '"anyOf"', '"format"', '"title"', '"minimum"'):
        assert refused not in told


def bounds(group, name):
    field = getattr(LightRagSettings(), group).__class__.model_fields[name]
    (found,) = [item for item in field.metadata if isinstance(item, Bounds)]
    return found


def test_the_ranges_that_are_told_are_the_ones_that_hold():
    told = {
        f"{tool.name}.{path}": schema["description"]
        for tool in TOOLS
        for path, schema in arguments_of(tool).items()
    }
    clamped = f"{TOP_K.low} to {TOP_K.high}"
    assert clamped in told["dsh_lightrag_query.topK"]
    assert clamped in told["dsh_lightrag_query_data.top_k"]
    assert clamped in told["dsh_lightrag_query_data.chunk_top_k"]
    assert f"normally {bounds('query', 'top_k').default}." in told["dsh_lightrag_query.topK"]
    content = bounds("query", "max_content_bytes").default
    assert f"normally {content} bytes" in told["dsh_lightrag_query.withContent"]
    listed = bounds("documents", "max_listed").default
    assert f"normally {listed};" in told["dsh_lightrag_documents.limit"]
    text = bounds("writes", "max_text_bytes").default
    assert f"normally {text} bytes" in told["dsh_lightrag_insert.text"]


def test_the_numbers_that_are_told_are_the_numbers_that_are_checked():
    """A length or a range in pydantic's schema stands in the description, digit by digit."""
    for tool in TOOLS:
        schema = tool.args.model_json_schema(by_alias=True)
        for name, inner in schema["properties"].items():
            limits = re.findall(
                r'"(?:maxLength|minLength|maxItems|minimum|maximum)": (\d+)', json.dumps(inner)
            )
            for limit in set(limits) - {UNICODE_CHECK}:
                assert re.search(rf"\b{limit}\b", inner["description"]), (name, limit)


def test_bypass_is_told_to_retrieve_nothing():
    told = {tool.name: tool for tool in TOOLS}["dsh_lightrag_query_data"]
    assert "Mode bypass retrieves nothing." in told.description
    assert "bypass: nothing is retrieved." in arguments_of(told)["mode"]["description"]
