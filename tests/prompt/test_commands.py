from __future__ import annotations

import inspect
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from dsh_lightrag.cli.prompts import augment
from dsh_lightrag.flags import CONNECTION, FLAGS
from dsh_lightrag.prompt import KnowledgeConfig
from dsh_lightrag.yaml_file import MAX_FILE_BYTES

from .support import (
    CONTEXT,
    KEY,
    NOWHERE,
    TASK,
    Stopwatch,
    command,
    environment,
    run,
    says,
    silent,
    unused_port,
)

FILE = """\
pipeline:
  drivers: {{claude: claude -p}}
  tracks:
    - id: t
      driver: claude
      middlewares: [{{type: lightrag, endpoint: "{url}", on_error: {policy}}}]
      tasks:
        - {{id: one, prompt: "Who was Marie Curie?"}}
        - {{id: two, prompt: "Who was Ada Lovelace?", middlewares: []}}
"""


@pytest.fixture
def pipeline(tmp_path, server):
    def written(policy="warn", url=None):
        path = tmp_path / "pipeline.yaml"
        path.write_text(FILE.format(url=url or server.url, policy=policy))
        return str(path)

    return written


# --- check ------------------------------------------------------------------------------------


def test_check_says_that_a_file_is_good_and_makes_no_request(pipeline, server):
    ended = run("pipeline", "check", pipeline())
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"2 task(s), no fault" in ended.stdout
    assert server.requests == []


def test_check_names_every_fault_with_file_and_line(pipeline):
    path = pipeline(policy="maybe", url="ftp://x")
    ended = run("pipeline", "check", path)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert f"{path}:6: endpoint: has the scheme 'ftp'".encode() in ended.stderr
    as_json = json.loads(run("pipeline", "check", path, "--json").stdout)
    assert as_json["ok"] is False
    assert (as_json["faults"][0]["line"], as_json["faults"][0]["key"]) == (6, "endpoint")


def test_a_file_cannot_steer_the_terminal_by_what_it_says():
    text = 'pipeline:\n  tracks:\n    - {id: t, tasks: [], "task\\es": 1}\n'
    ended = run("pipeline", "check", "-", stdin=text.encode())
    assert ended.returncode == 1
    assert b"\x1b" not in ended.stderr


def test_a_file_that_is_not_there_is_a_usage_error():
    ended = run("pipeline", "check", "no-such-file.yaml")
    assert ended.returncode == 2
    assert b"cannot be read" in ended.stderr


def test_a_foreign_key_variable_needs_the_permission_of_whoever_runs_it(pipeline, server):
    path = pipeline(policy="fail, api_key_env: TEAM_KEY")
    assert b"--allow-key-env" in run("pipeline", "check", path, TEAM_KEY=KEY).stderr
    allowed = ("--allow-key-env", "TEAM_KEY")
    assert run("pipeline", "check", path, *allowed, TEAM_KEY=KEY).returncode == 0
    ended = run("pipeline", "show", path, "--task", "one", "--trust", *allowed, TEAM_KEY=KEY)
    assert b"(with the key in TEAM_KEY)" in ended.stderr
    assert f"X-API-Key: {KEY}".encode() in server.requests[0]
    assert KEY.encode() not in ended.stdout + ended.stderr


def test_the_example_of_the_readme_needs_no_key_and_has_no_fault():
    example = Path(__file__).parents[2] / "examples" / "prompt" / "pipeline.yaml"
    assert run("pipeline", "check", str(example)).returncode == 0


def test_only_as_much_of_stdin_is_read_as_a_file_may_hold():
    ended = run("pipeline", "check", "-", stdin=b"#" * (MAX_FILE_BYTES + 1))
    assert ended.returncode == 1
    assert b"-:1: file: is larger than" in ended.stderr


# --- show -------------------------------------------------------------------------------------


def test_show_sends_nothing_before_the_file_is_trusted_and_lists_where_it_would(pipeline, server):
    ended = run("pipeline", "show", pipeline())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert server.url.encode() in ended.stderr
    assert b"--trust" in ended.stderr
    assert server.requests == []


def test_trust_in_a_file_lists_every_address_in_it_those_of_other_tasks_too(pipeline):
    path = pipeline()
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(
            "        - id: other\n"
            '          prompt: "Who was Alan Turing?"\n'
            '          middlewares: [{type: lightrag, endpoint: "http://elsewhere.invalid"}]\n'
        )
    ended = run("pipeline", "show", path, "--task", "one", "--trust")
    assert ended.returncode == 0
    assert b"http://elsewhere.invalid" in ended.stderr


def test_trust_is_remembered_for_the_same_file_and_for_no_other(pipeline, server):
    path = pipeline()
    assert run("pipeline", "show", path, "--trust").returncode == 0
    again = run("pipeline", "show", path)
    assert again.returncode == 0
    assert server.url.encode() in again.stderr
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    asked = len(server.requests)
    assert run("pipeline", "show", path).returncode == 2
    assert len(server.requests) == asked


def test_where_nothing_can_be_remembered_trust_holds_for_the_one_run(pipeline, tmp_path):
    (tmp_path / "file").write_text("")
    path = pipeline()
    ended = run("pipeline", "show", path, "--trust", XDG_STATE_HOME=str(tmp_path / "file"))
    assert ended.returncode == 0
    assert b"not remembered" in ended.stderr


def test_one_task_is_printed_byte_for_byte_ready_for_its_driver(pipeline):
    ended = run("pipeline", "show", pipeline(), "--task", "one", "--trust")
    assert ended.stdout.decode() == f"[Knowledge Graph Context]\n{CONTEXT}\n\nWho was Marie Curie?"


def test_a_task_without_middlewares_needs_no_trust(pipeline, server):
    ended = run("pipeline", "show", pipeline(), "--task", "t.two")
    assert (ended.returncode, ended.stdout) == (0, b"Who was Ada Lovelace?")
    assert server.requests == []


def test_all_tasks_are_printed_under_their_names_and_drivers_or_as_json(pipeline):
    path = pipeline()
    shown = run("pipeline", "show", path, "--trust").stdout.decode()
    assert shown == (
        "=== t.one (claude -p) ===\n"
        f"[Knowledge Graph Context]\n{CONTEXT}\n\nWho was Marie Curie?\n\n"
        "=== t.two (claude -p) ===\nWho was Ada Lovelace?\n\n"
    )
    rows = json.loads(run("pipeline", "show", path, "--json").stdout)
    assert [(row["task"], row["driver"]) for row in rows] == [
        ("t.one", "claude"),
        ("t.two", "claude"),
    ]
    assert rows[1]["prompt"] == "Who was Ada Lovelace?"


def test_when_a_middleware_is_told_to_fail_no_prompt_at_all_is_printed(pipeline, server):
    server.answer = says({"detail": "Invalid API Key"}, 403)
    ended = run("pipeline", "show", pipeline(policy="fail"), "--trust")
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"The prompt of t.one could not be made" in ended.stderr
    assert b"(unauthorized)" in ended.stderr


def test_a_broken_file_is_told_and_not_shown(pipeline):
    ended = run("pipeline", "show", pipeline(policy="maybe"), "--trust")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"on_error" in ended.stderr


def test_an_unknown_task_is_told_with_the_known_ones(pipeline):
    ended = run("pipeline", "show", pipeline(), "--task", "three", "--trust")
    assert ended.returncode == 2
    assert b"t.one, t.two" in ended.stderr


# --- augment ----------------------------------------------------------------------------------


def test_augment_prints_the_augmented_task_and_uses_the_deployments_own_settings(server):
    ended = run("augment", TASK, LIGHTRAG_ENDPOINT=server.url, LIGHTRAG_API_KEY=KEY)
    assert ended.stdout.decode() == f"[Knowledge Graph Context]\n{CONTEXT}\n\n{TASK}"
    assert f"X-API-Key: {KEY}".encode() in server.requests[0]
    assert (server.bodies[0]["mode"], server.bodies[0]["top_k"]) == ("mix", 10)


def test_every_field_of_the_middleware_is_an_option(server):
    options = "--mode naive --top-k 3 --max-context-chars 1000 --timeout 30s --required --fence"
    named = ["--label", "Facts", "--query", "polonium", "--on-error", "warn"]
    keyed = ["--api-key-env", "ANY_KEY", "--endpoint", server.url]
    ended = run("augment", TASK, *options.split(), *named, *keyed, ANY_KEY=KEY)
    assert ended.stdout.startswith(b"[Facts]\n<retrieved-")
    assert f"X-API-Key: {KEY}".encode() in server.requests[0]
    body = server.bodies[0]
    assert (body["query"], body["mode"], body["top_k"]) == ("polonium", "naive", 3)


def test_every_setting_of_the_connection_is_an_option_and_no_other_is():
    told = " ".join(run("augment", "--help").stdout.decode().split())
    for flag in FLAGS:
        assert (f"{flag.name} " in told or f"{flag.name}," in told) == (flag in CONNECTION)
    assert {flag.name for flag in CONNECTION} == {
        *("--endpoint", "--base-path", "--workspace", "--ca-file", "--use-proxy")
    }
    assert "--api-key-env" in told


def test_the_connection_is_made_as_the_options_say(server):
    ended = run("augment", TASK, "--endpoint", server.url, "--base-path", "/team")
    assert ended.returncode == 0
    assert server.requests[0].startswith(b"POST /team/query ")
    run("augment", TASK, "--endpoint", server.url, "--workspace", "w")
    assert server.requests[1].startswith(b"GET /health ")  # asked first whether it isolates them


def test_what_no_option_says_the_configuration_says():
    options = inspect.signature(augment).parameters
    fields = set(KnowledgeConfig.model_fields) & set(options)
    assert len(fields) == 9
    assert {name: options[name].default for name in fields} == dict.fromkeys(fields)


def test_a_key_in_the_clear_is_warned_of_once():
    plain = ["--endpoint", "http://192.0.2.1:9", "--api-key-env", "K", "--timeout", "500ms"]
    ended = run("augment", TASK, *plain, "--on-error", "skip", K=KEY)
    assert ended.stderr.count(b"settings_key_over_plain_http") == 1


def test_a_file_is_the_task_or_follows_it_byte_for_byte(server, tmp_path):
    path = tmp_path / "diff.txt"
    path.write_bytes(b"line\r\nno UTF-8: \xff\n")
    alone = run("augment", "--file", str(path), LIGHTRAG_ENDPOINT=server.url)
    assert alone.stdout.endswith(b"\n\nline\r\nno UTF-8: \xff\n")
    both = run(
        "augment", TASK, "--file", "-", stdin=path.read_bytes(), LIGHTRAG_ENDPOINT=server.url
    )
    assert both.stdout.endswith(f"\n\n{TASK}\n\n".encode() + path.read_bytes())
    assert server.bodies[1]["query"] == TASK


@pytest.mark.parametrize("policy", ["warn", "skip", "fail"])
def test_with_the_server_down_augment_passes_the_task_or_fails(policy):
    down = f"http://127.0.0.1:{unused_port()}"
    ended = run("augment", TASK, "--on-error", policy, LIGHTRAG_ENDPOINT=down)
    if policy == "fail":
        assert (ended.returncode, ended.stdout) == (1, b"")
        assert b"(unreachable)" in ended.stderr
    else:
        assert (ended.returncode, ended.stdout) == (0, TASK.encode())
        assert (ended.stderr == b"") == (policy == "skip")


def test_a_silent_server_costs_no_more_than_the_budget(server):
    server.answer = silent
    with Stopwatch() as watch:
        ended = run("augment", TASK, "--timeout", "500ms", LIGHTRAG_ENDPOINT=server.url)
    assert ended.stdout == TASK.encode()
    assert watch.seconds < 8  # half a second, and the start of a process on a busy machine


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Give a task"),
        (["--file", "no-such-file"], "cannot be read"),
        ([TASK, "--mode", "bypass"], "retrieves nothing"),
        ([TASK, "--timeout", "3h"], "500ms to 2h"),
        ([TASK, "--endpoint", "ftp://x"], "endpoint"),
        ([TASK, "--api-key-env", "NOT_SET"], "NOT_SET"),
    ],
)
def test_wrong_usage_ends_with_2_and_prints_no_prompt(arguments, said):
    ended = run("augment", *arguments, LIGHTRAG_ENDPOINT=NOWHERE)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert said.encode() in ended.stderr


def test_augment_feeds_a_driver_through_a_shell_pipe(server):
    line = f"{shlex.join(command('augment', TASK))} | sed 's/^/driver read: /'"
    variables = environment(LIGHTRAG_ENDPOINT=server.url)
    driven = subprocess.run(  # noqa: S602 - a shell pipe is the subject
        line, shell=True, capture_output=True, env=variables, timeout=60, check=True
    )
    assert driven.stdout.decode().splitlines()[-1] == f"driver read: {TASK}"
