"""`serve` as a process: what a newcomer does with it, and how it is refused and ended."""

import json
import signal
import socket

import pytest

from .conftest import KEY, WAIT_S, ran
from .hosting import QUICK, listed, served

CURIE = "Marie Curie discovered polonium in 1898."


def test_a_text_goes_in_and_a_question_is_answered_through_the_tools(tmp_path):
    with served(tmp_path) as (_, url):
        env = {"LIGHTRAG_ENDPOINT": url}
        insert = ("insert", CURIE, "--source", "curie.md", "--enable", "writes")
        assert ran(*insert, env=env)[0] == 0
        status, out, _ = ran("query", "Who discovered polonium?", "--json", env=env)
        result = json.loads(out)["result"]
        assert status == 0
        assert CURIE in result["answer"]
        assert result["llmGenerated"] is False
        assert result["references"][0]["filePath"] == "curie.md"
        assert ran("doctor", env=env)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path, number):
    with served(tmp_path) as (process, _):
        process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
        assert err == b""
    assert not (tmp_path / "server.json").exists()


def test_what_was_inserted_survives_a_kill_and_so_does_the_folder(tmp_path):
    with served(tmp_path) as (process, url):
        flags = ("--endpoint", url, "--enable", "writes", "--source", "curie.md")
        assert ran("insert", CURIE, *flags)[0] == 0
        process.kill()
        process.wait(WAIT_S)
    with served(tmp_path) as (_, url):
        assert listed(url) == {"curie.md": "processed"}


def test_a_second_server_on_the_same_folder_is_refused_and_told_where_the_first_is(tmp_path):
    with served(tmp_path) as (_, url):
        status, _, err = ran("serve", "--data", tmp_path, "--port", "0", *QUICK)
        assert status == 2
        assert f"is served already at {url}" in err.decode()


def test_a_taken_port_is_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, err = ran("serve", "--data", tmp_path, "--port", port, *QUICK)
    assert status == 2
    assert b"--port" in err


def test_off_loopback_it_needs_a_key_and_with_one_it_asks_for_it(tmp_path):
    status, _, err = ran("serve", "--data", tmp_path, "--host", "0.0.0.0", *QUICK)  # noqa: S104 - refused
    assert status == 2
    assert b"a key is required" in err
    flags = ("--api-key-env", "THE_KEY")
    with served(tmp_path, *flags, env={"THE_KEY": KEY}) as (_, url):
        assert ran("documents", "--endpoint", url)[0] == 1
        assert listed(url, *flags, env={"THE_KEY": KEY}) == {}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--embedder", "minilmm"), b"--embedder"),
        (("--embedder", "http://127.0.0.1:1/v1"), b"--embedder-model"),
        (("--chat-url", "nowhere", "--chat-model", "m"), b"--chat-url"),
        (("--chat-model", "m"), b"--chat-url"),
        (("--chat-url", "http://x/v1", "--chat-model", "m", "--chat-key-env", "NO_KEY"), b"NO_KEY"),
        (("--database-url-env", "NO_URL"), b"--database-url-env"),
        (("--backend", "lightrag"), b"--chat-url"),
        (("--api-key-env", "NO_KEY"), b"NO_KEY"),
        (("--allowed-host", "a/b"), b"allowed hosts"),
    ],
)
def test_flags_that_cannot_work_end_with_status_2_and_name_the_flag(run, tmp_path, flags, said):
    result = run("serve", "--data", tmp_path, *flags)
    assert result.exit_code == 2
    assert said in result.stderr.encode()
