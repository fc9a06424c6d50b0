"""Where people find the server: every snippet starts it, and every manifest is in step."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
import zipfile

import pytest
from mcp_support import ROOT

from dsh_lightrag import TOOLS, __version__
from dsh_lightrag.settings import LightRagSettings

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
REGISTRY = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
NAMES = [tool.name for tool in TOOLS]


def configured():
    """Yield the command line and the variables of each host's snippet."""
    for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL):
        config = json.loads(block)
        for server in (config.get("mcpServers") or config["servers"]).values():
            yield [server["command"], *server["args"]], server["env"]
    line = re.search(r"^claude mcp add (.*)$", PAGE, re.MULTILINE)[1]
    options, command = line.split(" -- ")
    words = shlex.split(options)
    name, value = words[words.index("--env") + 1].split("=", 1)
    yield shlex.split(command), {name: value}


def own_arguments(command):
    """Return what `dsh-lightrag mcp` is given; whatever comes before it must lead to it."""
    if command[0] == "uvx":
        assert command[1:3] == ["--from", "dsh-lightrag[mcp]"]
        command = command[3:]
    assert command[:2] == ["dsh-lightrag", "mcp"]
    return command[2:]


@pytest.mark.parametrize(("command", "variables"), list(configured()))
async def test_each_snippet_starts_a_server_that_lists_and_calls(
    start, environment, command, variables
):
    known = {"LIGHTRAG_ENDPOINT": environment["LIGHTRAG_ENDPOINT"]}
    assert set(variables) <= {"LIGHTRAG_ENDPOINT", "LIGHTRAG_API_KEY"}
    assert variables["LIGHTRAG_ENDPOINT"] == LightRagSettings().endpoint
    assert variables.get("LIGHTRAG_API_KEY", "${").startswith("${"), "a key in a shared file"
    process = await start(*own_arguments(command), **known)
    await process.handshake()
    listed = await process.ask("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == NAMES[:3]
    called = await process.ask("tools/call", {"name": NAMES[2], "arguments": {}})
    assert not called["result"].get("isError")


def test_every_host_of_the_page_has_a_snippet():
    assert len(list(configured())) == 5


def test_all_versions_are_in_step():
    assert REGISTRY["version"] == __version__
    assert {package["version"] for package in REGISTRY["packages"]} == {__version__}


def test_the_registry_manifest_names_what_is_there():
    (package,) = REGISTRY["packages"]
    assert len(REGISTRY["description"]) <= 100
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", REGISTRY["name"])
    assert f"mcp-name: {REGISTRY['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert [argument["value"] for argument in package["packageArguments"]] == ["mcp"]
    extra = re.search(r'^mcp = \["(.*)"\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert package["runtimeArguments"][0]["value"] == extra[1]


def test_the_registry_manifest_s_variables_are_settings(monkeypatch):
    for variable in REGISTRY["packages"][0]["environmentVariables"]:
        monkeypatch.setenv(variable["name"], variable.get("default", ""))
    assert LightRagSettings.from_env() == LightRagSettings()


async def test_the_bundle_is_built_by_one_command_and_its_entry_starts_the_server(
    start, tmp_path, environment
):
    write = runpy.run_path(str(ROOT / ".ci" / "mcpb.py"))["write"]
    bundle = write(tmp_path)
    assert bundle.name == f"dsh-lightrag-{__version__}.mcpb"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["version"] == __version__
    assert [tool["name"] for tool in manifest["tools"]] == NAMES[:3]
    assert manifest["user_config"]["lightrag_api_key"]["sensitive"]
    assert f"dsh-lightrag[mcp]=={__version__}" in (tmp_path / "pyproject.toml").read_text()
    config = manifest["server"]["mcp_config"]
    assert {text[14:-1] for text in config["env"].values()} == set(manifest["user_config"])
    defaults = {
        name: str(manifest["user_config"][text[14:-1]]["default"]).lower()
        for name, text in config["env"].items()
    }
    defaults["LIGHTRAG_ENDPOINT"] = environment["LIGHTRAG_ENDPOINT"]
    entry = str(tmp_path / manifest["server"]["entry_point"])
    process = await start(command=[sys.executable, entry], **defaults)
    await process.handshake()
    listed = await process.ask("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == NAMES[:3]
