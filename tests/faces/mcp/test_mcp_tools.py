"""The catalog in the protocol's words: in memory, for the handshake revisions and 2026-07-28."""

from __future__ import annotations

import json

import anyio
import jsonschema
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_support import ARGUMENTS, BOUND_S, KEY, REPLIES

from dsh_lightrag import TOOLS, LightRagError
from dsh_lightrag.faces.mcp.instructions import MAX_BYTES, instructions

NAMES = [tool.name for tool in TOOLS]


async def test_tools_are_listed_in_catalog_order_with_what_the_catalog_says(client):
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == NAMES
    for mcp_tool, tool in zip(listed, TOOLS, strict=True):
        assert mcp_tool.title == tool.title
        assert mcp_tool.description == tool.description
        assert mcp_tool.input_schema == tool.input_schema
        assert mcp_tool.output_schema == tool.output_schema


async def test_read_tools_say_that_they_change_nothing_and_delete_that_it_destroys(client):
    for tool in (await client.list_tools()).tools:
        hints = tool.annotations.model_dump(by_alias=True, exclude={"title"})
        reads = tool.name.endswith(("query", "query_data", "documents", "status"))
        assert hints["readOnlyHint"] is reads
        assert hints["openWorldHint"] is False
        assert hints["destructiveHint"] is tool.name.endswith("delete")
        assert hints["idempotentHint"] or not reads


async def test_each_tool_gives_a_text_and_structured_content_that_fits_its_schema(client):
    for tool in (await client.list_tools()).tools:
        result = await client.call_tool(tool.name, ARGUMENTS[tool.name])
        assert not result.is_error, result.content
        assert result.content[0].text
        jsonschema.validate(result.structured_content, tool.output_schema)


async def test_null_stays_null_on_the_wire(client):
    result = await client.call_tool("dsh_lightrag_documents", {})
    assert result.structured_content["documents"][0]["errorMessage"] is None


async def test_the_text_of_a_result_stands_alone(client):
    result = await client.call_tool("dsh_lightrag_query", {"question": "Who found polonium?"})
    assert "Marie Curie did." in result.content[0].text
    assert "curie.txt" in result.content[0].text


async def test_a_failure_is_flagged_and_says_code_message_and_hint(client):
    result = await client.call_tool("dsh_lightrag_query", {"question": " "})
    assert result.is_error
    error = result.meta["dsh-lightrag/error"]
    assert error["code"] == "invalid-argument"
    said = result.content[0].text
    assert said.startswith("dsh-lightrag (invalid-argument): question must not be blank.")
    assert said.endswith(f"Hint: {error['hint']}")


@pytest.mark.parametrize("arguments", [{"questions": "x"}, {}, {"question": 5}])
async def test_arguments_that_do_not_fit_are_a_typed_error_without_a_request(
    client, knowledge, arguments
):
    result = await client.call_tool("dsh_lightrag_query", arguments)
    assert result.meta["dsh-lightrag/error"]["code"] == "invalid-argument"
    assert knowledge.paths == []


async def test_a_failure_of_the_knowledge_server_is_flagged(client, monkeypatch):
    monkeypatch.setitem(REPLIES, "/query", {"nothing": "of the promised"})
    result = await client.call_tool("dsh_lightrag_query", {"question": "Who found polonium?"})
    assert result.is_error
    assert result.meta["dsh-lightrag/error"]["code"] == "bad-response"


async def test_an_unknown_tool_is_a_protocol_error(client):
    with pytest.raises(MCPError) as caught:
        await client.call_tool("dsh_lightrag_quarry", {})
    assert caught.value.error.code == types.INVALID_PARAMS
    assert caught.value.error.message == "Unknown tool: dsh_lightrag_quarry"


async def test_an_unknown_name_is_quoted_short_and_clean(client):
    with pytest.raises(MCPError) as caught:
        await client.call_tool("x\u202e\n" * 1000 + KEY, {})
    assert len(caught.value.error.message) < 450
    assert "\u202e" not in caught.value.error.message


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_that_is_switched_off_is_not_listed_and_answers_disabled(
    serving, knowledge, mode
):
    off = {"evidence": {"enabled": False}, "writes": {"enabled": False}}
    with anyio.fail_after(BOUND_S):
        async with Client(serving(**off), mode=mode) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            assert listed == NAMES[:3]
            for name in NAMES[3:]:
                result = await client.call_tool(name, ARGUMENTS[name])
                assert result.is_error
                assert result.meta["dsh-lightrag/error"]["code"] == "disabled"
    assert knowledge.paths == []


async def test_only_attested_names_are_listed_and_called(serving, knowledge):
    with anyio.fail_after(BOUND_S):
        async with Client(serving(admitted=frozenset({NAMES[2]}))) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [NAMES[2]]
            refused = await client.call_tool(NAMES[0], ARGUMENTS[NAMES[0]])
            assert refused.meta["dsh-lightrag/error"]["code"] == "disabled"
            assert "attested" in refused.content[0].text
            assert knowledge.paths == []
            assert not (await client.call_tool(NAMES[2])).is_error
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("dsh_lightrag_quarry")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_bug_answers_a_generic_failure_and_shows_nothing_of_itself(
    serving, monkeypatch, capfd, mode
):
    def broken(_self, _text):
        raise RuntimeError("CANARY-bug")

    with anyio.fail_after(BOUND_S):
        async with Client(serving(), mode=mode) as client:
            monkeypatch.setattr("dsh_lightrag.text.Redactor.__call__", broken)
            result = await client.call_tool("dsh_lightrag_query", {"question": "Who?"})
    assert result.is_error
    assert "inside the plugin" in result.content[0].text
    assert "CANARY-bug" not in result.model_dump_json() + capfd.readouterr().err


async def test_every_code_reaches_the_client_as_the_dispatcher_said_it(serving):
    from dsh_lightrag import Code  # noqa: PLC0415 - the subject of this test alone

    for code in Code:

        class Failing:
            def __init__(self, settings):
                self.settings, self.tools = settings, TOOLS

            async def __aenter__(self):
                return self

            async def __aexit__(self, *_):
                pass

            async def call(self, _name, _arguments, code=code):
                raise LightRagError(code, "What happened.", status=418, retry_after_s=7)

        with anyio.fail_after(BOUND_S):
            async with Client(serving(catalog=Failing)) as client:
                result = await client.call_tool(NAMES[0], {})
        expected = LightRagError(code, "What happened.", status=418, retry_after_s=7)
        assert result.is_error
        assert result.content[0].text == str(expected)
        assert result.meta["dsh-lightrag/error"] == expected.fields()


async def test_each_tool_tells_how_large_its_text_may_be(serving):
    for given, told in ((9000, 9000), (1_048_576, 500_000)):
        with anyio.fail_after(BOUND_S):
            async with Client(serving(output={"maxTextBytes": given})) as client:
                for tool in (await client.list_tools()).tools:
                    assert tool.meta["anthropic/maxResultSizeChars"] == told


async def test_instructions_tell_of_offered_tools_only_and_stay_under_a_kilobyte(client, serving):
    said = client.instructions
    assert all(name in said for name in NAMES[:5])
    assert "never instructions" in said
    assert len(said.encode()) <= MAX_BYTES
    assert len(instructions(NAMES).encode()) <= MAX_BYTES
    with anyio.fail_after(BOUND_S):
        async with Client(serving(admitted=frozenset({NAMES[0]}))) as narrow:
            assert NAMES[0] in narrow.instructions
            assert not any(name in narrow.instructions for name in NAMES[1:])


async def test_the_key_goes_to_the_knowledge_server_and_nowhere_else(client, knowledge, capfd):
    told = [client.instructions, (await client.list_tools()).model_dump_json()]
    for name, arguments in ARGUMENTS.items():
        told.append((await client.call_tool(name, arguments)).model_dump_json())
    told.append((await client.call_tool(NAMES[0], {"question": f"{KEY}"})).model_dump_json())
    assert set(knowledge.keys) == {KEY}
    assert KEY not in json.dumps(told) + "".join(capfd.readouterr())
