"""The tools in the real harness: listed, called, refused, absent; by both of its doors."""

from __future__ import annotations

import json
import threading

import pytest

from dsh_lightrag import TOOLS, LightRagSettings, toolbox
from faces.server import KEY, WAIT_S

from .conftest import BOUND_S, one_has_ended
from .scripted_model import Call, ScriptedModel

PREFIX = {"mcp": "mcp__lightrag__", "bare": ""}
QUESTION = {"question": "Who found polonium?"}


@pytest.fixture(params=PREFIX)
def mode(request):
    return request.param


def ours(model):
    """Return the names of our tools that the model was offered."""
    return [name for name in model.tools if "dsh_lightrag_" in name]


def test_tools_are_offered_and_called_and_writes_are_absent(mode, home, patch, server):
    prefix = PREFIX[mode]
    with ScriptedModel(
        [Call(f"{prefix}dsh_lightrag_query", QUESTION)],
        [Call(f"{prefix}dsh_lightrag_documents", {"status": "unheard of"})],
        [Call(f"{prefix}dsh_lightrag_query", {})],
        [Call(f"{prefix}dsh_lightrag_insert", {"text": "Written all the same."})],
    ) as model:
        # In the harness's environment a variable must not switch writes on behind the row's back.
        home.run(model, patch("--mode", mode), LIGHTRAG_WRITES__ENABLED="true")

    expected = toolbox(LightRagSettings()).tools
    assert sorted(ours(model)) == sorted(prefix + tool.name for tool in expected)
    for tool in expected:
        offered = model.tools[prefix + tool.name]
        assert offered["description"] == tool.description
        assert offered["input_schema"] == tool.input_schema
    answer, wrong, missing, write = model.said
    assert not answer.is_error
    assert "Marie and Pierre Curie found polonium [1]." in answer.text
    assert "curie.md" in answer.text
    assert "<retrieved-" in answer.text  # the text form, not the structure
    assert wrong.is_error
    assert wrong.text.startswith("Error: dsh-lightrag (invalid-argument): ")
    assert "Hint: " in wrong.text
    assert missing.text.startswith("Error: dsh-lightrag (invalid-argument): ")
    assert write.is_error
    assert "dsh_lightrag_insert" in write.text
    assert [(path, headers["X-API-Key"]) for path, headers, _ in server.requests] == [
        ("/query", KEY)
    ]
    assert "LIGHTRAG_API_KEY" in home.variables_seen
    assert not {name for name in home.variables_seen if name.startswith(("DSH_", "DEEPSEEK_API"))}


def test_every_tool_is_offered_once_it_is_enabled(mode, home, patch, server):
    prefix = PREFIX[mode]
    home.variables = {"TEAM_TOKEN": KEY, "LIGHTRAG_API_KEY": "another"}
    printed = patch("--mode", mode, "--enable", "evidence,writes", "--api-key-env", "TEAM_TOKEN")
    arguments = {"text": "Curie found polonium.", "source": "curie.md"}
    with ScriptedModel(
        [Call(f"{prefix}dsh_lightrag_insert", arguments)], [Call(f"{prefix}dsh_lightrag_scan")]
    ) as model:
        home.run(model, printed)

    assert sorted(ours(model)) == sorted(prefix + tool.name for tool in TOOLS)
    for tool in TOOLS:
        assert model.tools[prefix + tool.name]["input_schema"] == tool.input_schema
    conflict, scan = model.said
    assert conflict.text.startswith("Error: dsh-lightrag (conflict): ")
    assert KEY not in conflict.text  # which the server repeats
    assert not scan.is_error
    assert KEY not in printed
    assert [(path, headers["X-API-Key"]) for path, headers, _ in server.requests] == [
        ("/documents/text", KEY),
        ("/documents/scan", KEY),
    ]


def test_a_row_that_cannot_work_is_told_and_mounts_nothing(mode, home, patch):
    broken = patch("--mode", mode).replace("--endpoint=http", "--endpoint=ftp")
    with ScriptedModel() as model:
        told = home.run(model, broken)
    assert ours(model) == []
    assert "1 entry did not activate" in told
    assert "dsh-lightrag: endpoint: " in told  # our own words, on the harness's stderr


# --- bare names -------------------------------------------------------------------------------


def plugin(home, body, **config):
    """Return a patch with a plugin of this test's own, in the harness's words."""
    file = home.root / "test-plugin.mjs"
    file.write_text(f"export const inject = ['tools'];\n{body}", encoding="utf-8")
    row = {"id": "test-plugin", "name": str(file), "config": config}
    return json.dumps([{"insert": [row]}])


def test_allow_lists_that_name_the_tools_stay_valid(home, patch):
    # The harness refuses a list with a name that is not registered.
    restrict = plugin(
        home,
        "export const apply = (ctx, { allow }) => ctx.on('agent/created',"
        " ({ agent }) => { agent.ctx.tools.restrict({ allow }); });",
        allow=["dsh_lightrag_query", "dsh_lightrag_status"],
    )
    with ScriptedModel(
        [Call("dsh_lightrag_documents")], [Call("dsh_lightrag_query", QUESTION)]
    ) as model:
        home.run(model, patch("--mode", "bare"), restrict)
    assert ours(model) == ["dsh_lightrag_query", "dsh_lightrag_status"]
    refused, answer = model.said
    assert refused.is_error
    assert not answer.is_error


def test_read_tools_run_side_by_side(home, patch, server):
    both = threading.Barrier(2)
    answer = server.replies["/query"]

    class Meeting(dict):
        def __getitem__(self, path):
            if path == "/query":
                both.wait(WAIT_S)  # no question is answered before the other is asked
            return super().__getitem__(path)

    server.replies = Meeting(server.replies)
    question = Call("dsh_lightrag_query", QUESTION)
    with ScriptedModel([question, question]) as model:
        home.run(model, patch("--mode", "bare"))
    assert [said.is_error for said in model.said] == [False, False]
    assert all(answer[1]["response"] in said.text for said in model.said)


def test_programs_get_the_structured_value(home, patch):
    program = (
        "const { answer, references } = await tools.dsh_lightrag_query("
        f"{json.dumps(QUESTION)}); return [answer, references[0].filePath];"
    )
    with ScriptedModel([Call("run_code", {"code": program, "description": "Ask."})]) as model:
        # The harness confines programs where the machine can; what it confines is not the matter.
        home.run(
            model,
            patch("--mode", "bare"),
            DSH_TOOLS_MODE="ptc",
            DSH_PERMISSION_MODE="danger-full-access",
        )
    (said,) = model.said
    assert not said.is_error, said.text
    assert "Marie and Pierre Curie found polonium [1]." in said.text
    assert "curie.md" in said.text


def test_what_the_host_makes_of_a_result_is_what_the_model_sees(home, patch):
    redact = plugin(
        home,
        """
        export const apply = (ctx) => ctx.on('tools/execute', async (execution, next) => {
          const result = await next();
          return { ...result, value: { ...result.value, answer: 'Not for you.' } };
        });
        """,
    )
    with ScriptedModel([Call("dsh_lightrag_query", QUESTION)]) as model:
        home.run(model, patch("--mode", "bare"), redact)
    (said,) = model.said
    assert not said.is_error
    assert "Not for you." in said.text
    assert "Curie found polonium" not in said.text


def test_policies_of_the_host_judge_the_text_that_the_model_would_see(home, patch):
    judge = plugin(
        home,
        """
        export const apply = (ctx) => ctx.on('tools/post-execute', (execution, result) => {
          const text = `Judged: ${result.content[0].text}`;
          return { kind: 'accept', content: [{ type: 'text', text }] };
        });
        """,
    )
    with ScriptedModel([Call("dsh_lightrag_query", QUESTION)]) as model:
        home.run(model, patch("--mode", "bare"), judge)
    (said,) = model.said
    assert said.text.startswith("Judged: Answer of the knowledge base")


def test_a_name_that_is_taken_is_told_and_the_second_process_ends(home, patch):
    first = patch("--mode", "bare")
    second = first.replace("id: dsh-lightrag", "id: another")

    def alone():
        assert one_has_ended(home.lives, BOUND_S)
        assert (len(home.lives), len(home.alive)) == (2, 1)
        return [Call("dsh_lightrag_query", QUESTION)]

    with ScriptedModel(alone) as model:
        told = home.run(model, first, second)
    assert "1 entry did not activate" in told
    assert "dsh_lightrag_query" in told
    assert not model.said[0].is_error
