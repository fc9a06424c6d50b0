"""`--profile` and `--preset`: exactly the attested tools, under the profile's settings."""

from __future__ import annotations

import pytest
from mcp_support import ARGUMENTS, KEY

from dsh_lightrag import TOOLS

NAMES = [tool.name for tool in TOOLS]
PRESET = "- name: dsh-lightrag\n  toolFilter:\n    allow: [{names}]\n"


@pytest.fixture
def files(tmp_path, knowledge):
    """Write a profile with every tool on and a preset, and return the flags that name them."""

    def write(*allowed, profile=""):
        row = f"- name: dsh-lightrag\n  config:\n    endpoint: {knowledge.origin}\n"
        row += "    evidence: {enabled: true}\n    writes: {enabled: true}\n"
        (tmp_path / "profile.yml").write_text(profile or row, encoding="utf-8")
        preset = PRESET.format(names=", ".join(allowed))
        (tmp_path / "preset.yml").write_text(preset, encoding="utf-8")
        return [
            "--profile",
            str(tmp_path / "profile.yml"),
            "--preset",
            str(tmp_path / "preset.yml"),
        ]

    return write


async def listed(process):
    await process.handshake()
    return [tool["name"] for tool in (await process.ask("tools/list"))["result"]["tools"]]


async def called(process, name):
    return (await process.ask("tools/call", {"name": name, "arguments": ARGUMENTS[name]}))["result"]


async def test_exactly_the_attested_tools_are_served_in_catalog_order(start, files, knowledge):
    # The variables stand for nothing here but the key: the profile is complete.
    process = await start(
        *files(NAMES[4], NAMES[0]), LIGHTRAG_ENDPOINT="http://127.0.0.1:9", LIGHTRAG_TIMEOUT_MS="x"
    )
    assert await listed(process) == [NAMES[0], NAMES[4]]
    refused = await called(process, NAMES[2])
    assert refused["_meta"]["dsh-lightrag/error"]["code"] == "disabled"
    assert knowledge.paths == []
    assert not (await called(process, NAMES[0])).get("isError")
    assert knowledge.keys == [KEY]


async def test_read_only_wins_over_a_profile_that_enables_writes(start, files, knowledge):
    process = await start(*files(NAMES[0], NAMES[4]), "--read-only")
    assert await listed(process) == [NAMES[0]]
    refused = await called(process, NAMES[4])
    assert refused["_meta"]["dsh-lightrag/error"]["code"] == "disabled"
    assert knowledge.paths == []


async def test_a_key_may_be_named_beside_a_profile(start, files, knowledge):
    process = await start(*files(NAMES[2]), "--api-key-env", "MINE", MINE="key-of-mine")
    await listed(process)
    await called(process, NAMES[2])
    assert set(knowledge.keys) == {"key-of-mine"}


@pytest.mark.parametrize("key", ["k\u00e9y-CANARY", "key-CANARY\nx", " "])
async def test_a_key_that_cannot_be_sent_is_refused_beside_a_profile_too(start, files, key):
    process = await start(*files(NAMES[2]), "--api-key-env", "MINE", MINE=key)
    status, out, err = await process.end()
    assert (status, out) == (2, "")
    assert "key" in err.lower()
    assert "Traceback" not in err
    assert "CANARY" not in err


async def test_a_refused_attestation_serves_nothing_and_says_why(start, files):
    only_reads = "- name: dsh-lightrag\n"
    process = await start(*files(NAMES[4], profile=only_reads))
    status, out, err = await process.end()
    assert (status, out) == (2, "")
    assert "dsh_lightrag_insert" in err
    assert "writes.enabled" in err


async def test_a_profile_without_a_row_of_ours_serves_nothing(start, files):
    process = await start(*files(NAMES[0], profile="- name: other\n"))
    status, _, err = await process.end()
    assert status == 2
    assert "no enabled row" in err


@pytest.mark.parametrize(
    "flags", [["--enable", "writes"], ["--endpoint", "http://127.0.0.1:1"], ["--query-top-k", "3"]]
)
async def test_flags_do_not_change_what_was_attested(start, files, flags):
    process = await start(*files(NAMES[0]), *flags)
    status, _, err = await process.end()
    assert status == 2
    assert "stands in the profile" in err
