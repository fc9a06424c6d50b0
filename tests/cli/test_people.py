"""The same tools for people: text and tables on stdout, failures on stderr."""

from __future__ import annotations

import json

import pytest

from .conftest import ACCEPTED, COUNTS

HOSTILE = "[bold red]no[/bold red] [link=http://evil.example]x[/link] :skull: \x1b[31m\x9b31m"


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        (["query", "Who was it?"], "dsh_lightrag_query"),
        (["documents"], "dsh_lightrag_documents"),
        (["status"], "dsh_lightrag_status"),
        (["insert", "A text."], "dsh_lightrag_insert"),
        (["scan"], "dsh_lightrag_scan"),
        (["delete", "doc-1"], "dsh_lightrag_delete"),
    ],
)
def test_json_is_what_call_prints(run, server, command, tool):
    result = run(*command, "--json", "--enable", "writes")
    assert result.exit_code == 0
    envelope = json.loads(result.stdout)
    assert envelope["ok"] is True
    assert envelope["tool"] == tool
    server.replies.clear()
    failed = run(*command, "--json", "--enable", "writes")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["error"]["code"] == "not-found"


def test_query_shows_answer_and_sources(run, server):
    result = run("query", "Who was it?", "--mode", "naive", "--top-k", "4", "--with-content")
    assert result.exit_code == 0
    assert "\nMarie Curie [1]\n" in result.stdout
    assert "[1] curie.md\n    A passage.\n" in result.stdout
    body = server.bodies("/query")[0]
    assert (body["mode"], body["top_k"], body["include_chunk_content"]) == ("naive", 4, True)


def test_a_mode_that_does_not_exist_is_a_usage_error(run, server):
    assert run("query", "Who was it?", "--mode", "psychic").exit_code == 2
    assert server.requests == []


def test_documents_are_a_table_with_whole_ids_and_reasons(run, server):
    result = run("documents", "--status", "FAILED", "--limit", "10")
    assert result.exit_code == 0
    assert "doc-2" in result.stdout
    assert "[red]x[/red].md: bad key" in result.stdout
    assert server.bodies("/documents/paginated")[0]["status_filter"] == "failed"


def test_retrieved_text_is_neither_markup_nor_control_sequence(run, server):
    server.replies["/query"] = (200, {"response": HOSTILE, "references": []})
    result = run("query", "Who was it?")
    assert "[bold red]no[/bold red] [link=http://evil.example]x[/link] :skull:" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\x9b" not in result.stdout


def test_a_failure_is_told_on_stderr_alone(run, server):
    server.replies["/query"] = (200, HOSTILE.encode())
    result = run("query", "Who was it?")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "dsh-lightrag (bad-response): " in result.stderr
    assert " Hint: " in result.stderr
    assert "evil.example" not in result.stderr


def test_a_disabled_command_says_which_flag_enables_it(run, server):
    result = run("insert", "A text.")
    assert result.exit_code == 1
    assert "--enable writes" in result.stderr
    assert server.requests == []


@pytest.mark.usefixtures("server")
def test_advice_names_commands_where_models_read_tools(run):
    result = run("insert", "A text.", "--enable", "writes")
    assert "Call `dsh-lightrag documents` until" in result.stdout
    assert "dsh_lightrag_" not in result.stdout


# --- status -----------------------------------------------------------------------------------


def test_status_is_a_failure_when_the_counts_cannot_be_read(run, server):
    assert run("status").exit_code == 0
    server.replies["/documents/status_counts"] = (403, {"detail": "Invalid API Key"})
    people, machine = run("status"), run("status", "--json")
    assert (people.exit_code, machine.exit_code) == (1, 1)
    assert "unauthorized" in people.stdout
    assert json.loads(machine.stdout)["result"]["countsError"]["code"] == "unauthorized"


def test_status_tells_only_the_states_that_documents_are_in(run, server):
    assert "processed 2, all 2\n" in run("status").stdout
    server.replies["/documents/status_counts"] = (200, {"status_counts": dict.fromkeys(COUNTS, 0)})
    assert "nothing is ingested" in run("status").stdout


# --- insert -----------------------------------------------------------------------------------


def inserted(run, server, *arguments, stdin=None):
    result = run("insert", *arguments, "--enable", "writes", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return server.bodies("/documents/text")[-1]


def test_insert_takes_an_argument_a_file_or_stdin(run, server, tmp_path):
    file = tmp_path / "café.md"
    file.write_bytes("\ufeffDer Text.\n".encode())
    assert inserted(run, server, "A text.", "--source", "a.md")["file_source"] == "a.md"
    assert inserted(run, server, "--file", file) == {
        "text": "Der Text.\n",
        "file_source": "café.md",
    }
    assert inserted(run, server, "--file", file, "--source", "b.md")["file_source"] == "b.md"
    piped = inserted(run, server, "-", stdin="Piped in.")
    assert piped["text"] == "Piped in."
    assert piped["file_source"].startswith("text-")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"%PDF\0\1", "is binary"),
        ("Gr\u00fc\u00dfe".encode("latin-1"), "is not UTF-8 text (byte 2)"),
    ],
)
def test_a_file_that_is_no_text_is_refused_with_a_mend(run, server, tmp_path, content, said):
    file = tmp_path / "x.bin"
    file.write_bytes(content)
    result = run("insert", "--file", file, "--enable", "writes")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "dsh-lightrag scan" in result.stderr
    assert run("insert", "-", "--enable", "writes", stdin=content).exit_code == 2
    assert server.requests == []


def test_a_file_that_cannot_be_read_is_a_usage_error(run, server, tmp_path):
    for path in (tmp_path, tmp_path / "absent.md"):
        result = run("insert", "--file", path, "--enable", "writes")
        assert result.exit_code == 2
        assert "--file" in result.stderr
    assert server.requests == []


def test_a_file_over_the_cap_is_too_large_and_never_read_whole(run, server, tmp_path):
    file = tmp_path / "huge.md"
    with file.open("wb") as stream:
        stream.truncate(8 << 40)  # a sparse file that no memory holds
    result = run("insert", "--file", file, "--enable", "writes", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "too-large"
    assert server.requests == []


def test_a_text_of_exactly_the_cap_is_inserted(run, server, tmp_path):
    file = tmp_path / "full.md"
    file.write_bytes(b"\xef\xbb\xbf" + b"x" * 1024)
    body = inserted(run, server, "--file", file, "--writes-max-text-bytes", "1024")
    assert len(body["text"]) == 1024
    file.write_bytes(b"\xef\xbb\xbf" + b"x" * 1025)
    over = run("insert", "--file", file, "--enable", "writes", "--writes-max-text-bytes", "1024")
    assert over.exit_code == 1


def test_insert_wants_exactly_one_text(run, server, tmp_path):
    assert run("insert", "--enable", "writes").exit_code == 2
    assert run("insert", "x", "--file", tmp_path / "y", "--enable", "writes").exit_code == 2
    assert server.requests == []


def test_delete_and_scan_say_that_they_were_only_started(run, server):
    assert "is not done yet" in run("delete", "doc-1", "--enable", "writes").stdout
    assert server.bodies("/documents/delete_document")[0]["doc_ids"] == ["doc-1"]
    assert ACCEPTED["track_id"] in run("scan", "--enable", "writes").stdout
