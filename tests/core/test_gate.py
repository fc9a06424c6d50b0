"""What is offered, and what a stale reference to something that is not answers."""

from __future__ import annotations

import pytest

from dsh_lightrag import (
    TOOLS,
    Access,
    Code,
    LightRagError,
    LightRagSettings,
    UnknownToolError,
    toolbox,
)

from .support import ARGUMENTS, PREFIX, serve

READS = ["dsh_lightrag_query", "dsh_lightrag_documents", "dsh_lightrag_status"]
EVIDENCE = ["dsh_lightrag_query_data"]
WRITES = ["dsh_lightrag_insert", "dsh_lightrag_scan", "dsh_lightrag_delete"]


def offered(**row):
    return [tool.name for tool in toolbox(LightRagSettings(**row)).tools]


async def refusal(name, **row):
    async with toolbox(LightRagSettings(**row)) as tools:
        with pytest.raises(LightRagError) as caught:
            await tools.call(name, ARGUMENTS[name.removeprefix(PREFIX)])
    return caught.value


def test_by_default_exactly_three_read_tools_in_this_order():
    assert offered() == READS


def test_switches_append_tools_in_order():
    evidence, writes = {"evidence": {"enabled": True}}, {"writes": {"enabled": True}}
    assert offered(**evidence) == READS + EVIDENCE
    assert offered(**writes) == READS + WRITES
    assert offered(**evidence, **writes) == READS + EVIDENCE + WRITES
    assert [tool.name for tool in TOOLS] == READS + EVIDENCE + WRITES


def test_disabled_as_a_whole_nothing_is_offered_whatever_the_switches_say():
    assert offered(enabled=False) == []
    assert offered(enabled=False, writes={"enabled": True}, evidence={"enabled": True}) == []


def test_nothing_that_writes_is_offered_while_writes_are_off():
    for evidence in (True, False):
        tools = toolbox(LightRagSettings(evidence={"enabled": evidence})).tools
        assert {tool.access for tool in tools} == {Access.READ}
    assert {tool.name for tool in TOOLS if tool.access is Access.WRITE} == set(WRITES)


@pytest.mark.parametrize("name", WRITES)
async def test_a_stale_write_is_disabled_names_the_switch_and_makes_no_request(name, httpx_mock):
    error = await refusal(name)
    assert error.code is Code.DISABLED
    assert "writes.enabled" in error.message
    assert error.hint
    assert httpx_mock.get_requests() == []


async def test_stale_evidence_is_disabled_and_names_its_switch(httpx_mock):
    error = await refusal("dsh_lightrag_query_data", writes={"enabled": True})
    assert error.code is Code.DISABLED
    assert "evidence.enabled" in error.message
    assert httpx_mock.get_requests() == []


@pytest.mark.parametrize("name", READS + EVIDENCE + WRITES)
async def test_while_the_whole_is_off_every_tool_is_disabled(name, httpx_mock):
    error = await refusal(name, enabled=False, writes={"enabled": True}, evidence={"enabled": True})
    assert error.code is Code.DISABLED
    assert "enabled is not true" in error.message
    assert httpx_mock.get_requests() == []


async def test_the_gate_comes_before_the_arguments(httpx_mock):
    async with toolbox(LightRagSettings()) as tools:
        with pytest.raises(LightRagError) as caught:
            await tools.call("dsh_lightrag_delete", {"nonsense": 1})
    assert caught.value.code is Code.DISABLED
    assert httpx_mock.get_requests() == []


@pytest.mark.parametrize(
    "name", ["", "query", "dsh_lightrag_drop", "DSH_LIGHTRAG_QUERY", "__init__"]
)
async def test_a_name_outside_the_catalog_is_the_hosts_own_unknown_tool_error(name, httpx_mock):
    async with toolbox(LightRagSettings(writes={"enabled": True})) as tools:
        with pytest.raises(UnknownToolError):
            await tools.call(name, {})
    assert httpx_mock.get_requests() == []


async def test_one_deployments_switch_is_no_other_deployments(httpx_mock):
    serve(httpx_mock, "scan_ok")
    on = toolbox(LightRagSettings(writes={"enabled": True}))
    off = toolbox(LightRagSettings())
    assert (await on.call("dsh_lightrag_scan")).structured["status"] == "scanning_started"
    with pytest.raises(LightRagError) as caught:
        await off.call("dsh_lightrag_scan")
    assert caught.value.code is Code.DISABLED
    assert len(httpx_mock.get_requests()) == 1
    await on.aclose()
    await off.aclose()


async def test_no_variable_switches_writes_on_in_an_explicit_configuration(monkeypatch, httpx_mock):
    monkeypatch.setenv("LIGHTRAG_WRITES__ENABLED", "true")
    monkeypatch.setenv("LIGHTRAG_EVIDENCE__ENABLED", "true")
    assert offered() == READS
    assert (await refusal("dsh_lightrag_insert")).code is Code.DISABLED
    assert httpx_mock.get_requests() == []
