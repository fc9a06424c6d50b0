from __future__ import annotations

import hashlib
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag import ConfigurationError
from dsh_lightrag.prompt.pipeline import PipelineError, destinations_of, read_pipeline

from .support import CONTEXT, KEY, says

GOOD = """\
    pipeline:
      name: docs
      plugins: ['@elsewhere/plugin']
      driver: codex
      drivers:
        claude: claude -p
        codex: [codex, exec]
      tracks:
        - id: writer
          driver: claude
          color: blue
          middlewares:
            - type: lightrag
              endpoint: http://127.0.0.1:9621
              top_k: 20
          tasks:
            - id: draft
              prompt: Draft a guide.
            - id: plain
              driver: codex
              middlewares: []
              prompt: Just do it.
        - id: reviewer
          tasks:
            - id: draft
              prompt: |
                Review it.
              middlewares: [{type: lightrag, endpoint: 'https://other.example', basePath: /a}]
    """


def read(text, **options):
    return read_pipeline(dedent(text).encode(), **options)


def faults(text):
    with pytest.raises(PipelineError) as caught:
        read(text)
    return [(fault.line, fault.key) for fault in caught.value.faults]


def track(lines):
    """Return a file whose lines 9 and on are these, inside the only task's only middleware."""
    head = """\
pipeline:
  tracks:
    - id: t
      tasks:
        - id: a
          prompt: Go on.
          middlewares:
            - type: lightrag
"""
    return head + "".join(f"              {line}\n" for line in lines)


def test_tasks_inherit_their_tracks_driver_and_middlewares_unless_they_have_their_own():
    pipeline = read(GOOD)
    tasks = {task.full_id: task for task in pipeline.tasks}
    assert list(tasks) == ["writer.draft", "writer.plain", "reviewer.draft"]
    assert [task.driver for task in pipeline.tasks] == ["claude", "codex", "codex"]
    assert [len(task.middlewares) for task in pipeline.tasks] == [1, 0, 1]
    assert tasks["writer.draft"].middlewares[0].config.top_k == 20
    assert tasks["reviewer.draft"].prompt == "Review it.\n"
    assert pipeline.drivers == {"claude": "claude -p", "codex": "codex exec"}
    assert pipeline.digest == hashlib.sha256(dedent(GOOD).encode()).hexdigest()


def test_every_address_is_told_once_with_its_path_and_the_variable_of_its_key(monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)
    keyed = GOOD.replace("top_k: 20", "api_key_env: LIGHTRAG_API_KEY")
    assert destinations_of(read(keyed).tasks) == (
        "http://127.0.0.1:9621 (with the key in LIGHTRAG_API_KEY)",
        "https://other.example/a",
    )


def test_a_task_is_found_by_its_id_or_with_its_track_where_that_is_not_enough():
    pipeline = read(GOOD)
    assert pipeline.select("plain").full_id == "writer.plain"
    assert pipeline.select("reviewer.draft").track == "reviewer"
    with pytest.raises(ConfigurationError, match="several tasks"):
        pipeline.select("draft")
    with pytest.raises(ConfigurationError, match="no task"):
        pipeline.select("nope")


async def test_a_final_prompt_has_the_blocks_of_all_middlewares_in_the_files_order(server):
    row = f"{{type: lightrag, endpoint: '{server.url}', label: %s}}"
    pipeline = read(
        f"""\
        pipeline:
          tracks:
            - id: t
              middlewares: [{row % "A"}, {row % "B"}]
              tasks: [{{id: a, prompt: Go on.}}]
        """
    )
    prompt = await pipeline.tasks[0].final_prompt()
    assert prompt == f"[A]\n{CONTEXT}\n\n[B]\n{CONTEXT}\n\nGo on."
    assert [body["query"] for body in server.bodies] == ["Go on.", "Go on."]


def test_reading_makes_no_request(server):
    server.answer = says({}, 500)
    read(GOOD.replace("http://127.0.0.1:9621", server.url))
    assert server.requests == []


# --- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["mode: mix"], (8, "endpoint")),
        (["endpoint: http://x", "mode: bypass"], (10, "mode")),
        (["endpoint: ftp://x"], (9, "endpoint")),
        (["endpoint: http://x", "timeout: 30"], (10, "timeout")),
        (["endpoint: http://x", "", "# why", "topk: 5"], (12, "topk")),
        (["endpoint: http://x", "required: yes"], (10, "required")),  # YAML 1.2: text
        (["endpoint: http://x", "api_key_env: AWS_SECRET"], (10, "api_key_env")),
        (["endpoint: http://x", "api_key_env: LIGHTRAG_NONE"], (10, "api_key_env")),
    ],
)
def test_a_fault_of_a_middleware_has_its_line_and_key(lines, fault):
    assert faults(track(lines)) == [fault]


def test_all_faults_are_told_in_the_order_of_their_lines():
    broken = """\
        pipeline:
          driver: [x]
          drivers: {claude: claude -p}
          plugin: []
          tracks:
            - id: a
              driver: codex
              tasks:
                - id: one
                - {id: one, prompt: x, middleware: []}
                - prompt: no id
                - {id: two, prompt: " "}
                - {id: three, prompt: "\\ud800"}
                - {id: four, prompt: x, middlewares: {type: lightrag}}
                - {id: five, prompt: x, middlewares: [{endpoint: "http://x"}, 5]}
            - id: a
            - nothing
        """
    assert faults(broken) == [
        (2, "driver"),
        (4, "plugin"),
        (7, "driver"),
        (9, "prompt"),
        (10, "middleware"),
        (10, "id"),
        (11, "id"),
        (12, "prompt"),
        (13, "prompt"),
        (14, "middlewares"),
        (15, "type"),
        (15, "middlewares"),
        (16, "id"),
        (17, "tracks"),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("[]", 1),
        ("tracks: []", 1),
        ("pipeline: {}", 1),
        ("pipeline:\n  tracks: 5", 2),
        ("pipeline:\n  tracks:\n    - id: t\n", 3),
        ("pipeline:\n  name: a\n  name: b\n  tracks: []\n", 3),
        ("pipeline:\n  tracks: [", 2),
        ("pipeline:\n  tracks: !!js/function 'f()'\n", 2),
        ("pipeline:\n  tracks: !!python/object/apply:os.system ['true']\n", 2),
        ("pipeline: {tracks: []}\n---\nb: 2\n", 2),
        ("pipeline: *nothing", 1),
    ],
)
def test_what_is_no_pipeline_is_refused_with_a_line(text, line):
    assert faults(text)[0][0] == line


def test_a_file_that_is_not_utf_8_or_too_large_is_refused_with_a_line():
    with pytest.raises(PipelineError, match="2: file: is not UTF-8"):
        read_pipeline(b"pipeline:\n  name: \xff\n")
    with pytest.raises(PipelineError, match="larger than"):
        read_pipeline(b"#" * (1024 * 1024 + 1))


def test_no_fault_hides_another_and_each_has_its_own_line():
    broken = """\
        pipeline:
          name: a
          name: b
          started: 2024-99-99
          hook: !!js require('x')
          size: 0x_
          tracks:
            - id: t
              tasks:
                - {id: one, prompt: 2024-99-99}
                - {id: two, prompt: !!js "f()"}
                - id: three
                  prompt: Go on.
                  middlewares:
                    - type: lightrag
                      endpoint: ftp://x
                      basePath: ../x
                      timeout: 30
                      topk: 5
                      label: !!js "g()"
        """
    assert faults(broken) == [
        (3, "file"),
        (6, "file"),
        (10, "prompt"),
        (11, "prompt"),
        (16, "endpoint"),
        (17, "base_path"),
        (18, "timeout"),
        (19, "topk"),
        (20, "label"),
    ]


def test_a_value_that_only_yaml_takes_for_a_date_is_said_to_be_one():
    with pytest.raises(PipelineError, match="is !!timestamp, not text"):
        read("pipeline: {tracks: [{id: t, tasks: [{id: a, prompt: 2024-99-99}]}]}")


def test_keys_that_are_not_ours_may_hold_what_only_others_can_read():
    text = "pipeline: {hook: !!js 'f()', tracks: [{id: t, tasks: [{id: a, prompt: Go on.}]}]}"
    assert [task.prompt for task in read(text).tasks] == ["Go on."]


def test_a_small_file_of_nested_merges_or_repeated_aliases_ends_quickly():
    lines = ["m0: &m0 {a: 1}"]
    lines += [f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}" for i in range(1, 12)]
    merges = "\n".join([*lines, "pipeline: {<<: *m11}"])
    assert len(merges) < 1000
    assert faults(merges)
    tasks = ", ".join(f"{{id: t{i}, prompt: x, middlewares: *m}}" for i in range(200))
    tracks = ", ".join(f"{{id: t{i}, tasks: *k}}" for i in range(200))
    rows = ", ".join(["{type: lightrag, endpoint: 'http://x'}"] * 100)
    aliases = f"m: &m [{rows}]\nk: &k [{tasks}]\npipeline:\n  tracks: [{tracks}]\n"
    with pytest.raises(PipelineError, match="goes past item 20000") as caught:
        read(aliases)
    assert len(caught.value.faults) == 1


def test_a_file_of_a_billion_laughs_or_one_that_holds_itself_ends_quickly():
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert faults("\n".join([*lines, "pipeline: *a11"]))
    assert faults("pipeline: &p\n  tracks: [*p]\n")
    assert faults("pipeline: " + "[" * 5000)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_a_file_holds_it_is_read_or_refused_with_faults(data):
    faults = ()
    try:
        read_pipeline(data)
    except PipelineError as error:
        faults = error.faults
    assert all(fault.line >= 1 and fault.problem for fault in faults)
