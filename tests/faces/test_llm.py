"""The plugin in the real `llm`: its command line, its plugin manager, its log of tool calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dsh_lightrag

from .server import KEY, WAIT_S

SRC = Path(dsh_lightrag.__file__).parents[1]
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# A model that calls the tools its prompt names, and then says what they returned.
SCRIPTED = """
import json
import llm

class Scripted(llm.Model):
    model_id = "scripted"
    supports_tools = True

    def execute(self, prompt, stream, response, conversation):
        if not prompt.tool_results:
            for name, arguments in json.loads(prompt.prompt):
                response.add_tool_call(llm.ToolCall(name=name, arguments=arguments))
            return
        for result in prompt.tool_results:
            yield f"{result.name} returned: {result.output}\\n"

@llm.hookimpl
def register_models(register):
    register(Scripted())
"""
ASK = ["dsh_lightrag_query", {"question": "Who found polonium?"}]


@pytest.fixture
def command(tmp_path, server):
    """Return what runs `llm` with our plugin as pyproject declares it, and the scripted model."""
    entry_points = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["llm"]
    distribution = tmp_path / "site" / "scripted-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted\nVersion: 1\n")
    lines = [f"{name} = {target}" for name, target in entry_points.items()]
    (distribution / "entry_points.txt").write_text(
        "\n".join(["[llm]", "scripted = scripted_model", *lines])
    )
    (tmp_path / "site" / "scripted_model.py").write_text(SCRIPTED)

    def start(*arguments, **variables):
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(SRC), str(tmp_path / "site")]),
            "LLM_USER_PATH": str(tmp_path / "user"),
            "LIGHTRAG_ENDPOINT": server.url,
            "LIGHTRAG_API_KEY": KEY,
            **variables,
        }
        return subprocess.Popen(  # noqa: S603 - our own interpreter and a fixed module
            [sys.executable, "-m", "llm", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return start


def finish(process):
    out, err = process.communicate(timeout=60)
    assert KEY not in out + err
    return process.returncode, out, err


def prompt(command, *calls, **variables):
    options = [option for name, _ in calls for option in ("-T", name)]
    return finish(command("-m", "scripted", *options, json.dumps(calls), **variables))


def test_answers_a_model_that_calls_a_tool(command, server):
    code, out, err = prompt(command, ASK)
    assert code == 0, err
    assert "dsh_lightrag_query returned: Answer of the knowledge base, with 1 source(s)." in out
    assert "Marie and Pierre Curie found polonium [1]." in out
    assert [path for path, _, _ in server.requests] == ["/query"]


def test_shows_an_error_with_code_and_hint_and_files_it(command):
    insert = ["dsh_lightrag_insert", {"text": "Polonium.", "source": "curie.md"}]
    code, out, err = prompt(command, insert, LIGHTRAG_WRITES__ENABLED="true")
    assert code == 0, err
    assert "dsh_lightrag_insert returned: Error: dsh-lightrag (conflict): HTTP 409." in out
    assert "Hint: Use another source name" in out
    _, logged, _ = finish(command("logs", "list", "--json"))
    (result,) = [result for row in json.loads(logged) for result in row["tool_results"]]
    assert result["exception"].startswith("ToolFailure: dsh-lightrag (conflict)")


def test_lists_what_the_environment_switches_on(command):
    def listed(**variables):
        code, out, err = finish(command("tools", "list", "--json", **variables))
        assert code == 0, err
        names = [tool["name"] for tool in json.loads(out)["tools"]]
        return [name for name in names if name.startswith("dsh_")]

    reads = ["dsh_lightrag_documents", "dsh_lightrag_query", "dsh_lightrag_status"]
    assert sorted(listed()) == reads
    assert len(listed(LIGHTRAG_WRITES__ENABLED="1", LIGHTRAG_EVIDENCE__ENABLED="1")) == 7
    assert listed(LIGHTRAG_ENABLED="false") == []


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            {"LIGHTRAG_ENDPOINT": "ftp://kb"},
            "dsh-lightrag: LIGHTRAG_ENDPOINT: has the scheme 'ftp'",
        ),
        ({"LIGHTRAG_WRITES__ENABLED": "yes"}, "LIGHTRAG_WRITES__ENABLED: must be true, false"),
        ({"LIGHTRAG_QUERY__TOPK": "5"}, "Did you mean LIGHTRAG_QUERY__TOP_K?"),
    ],
)
def test_answers_a_bad_configuration_when_a_tool_is_called(command, server, variables, told):
    code, out, err = finish(command("tools", "list", "--json", **variables))
    assert code == 0, err
    assert "dsh_lightrag_query" in out
    assert "dsh_lightrag_insert" not in out
    code, out, err = prompt(command, ASK, **variables)
    assert code == 0, err
    assert "dsh_lightrag_query returned: Error: dsh-lightrag: " in out
    assert told in out
    assert server.requests == []


@pytest.mark.usefixtures("interruptible")
def test_control_c_cancels_the_call(command, server):
    server.hang()
    process = command("-m", "scripted", "-T", ASK[0], json.dumps([ASK]))
    assert server.asked.wait(WAIT_S)
    process.send_signal(signal.SIGINT)
    assert server.left.wait(WAIT_S)
    code, _, err = finish(process)
    assert code != 0
    assert '"outcome": "cancelled"' in err
