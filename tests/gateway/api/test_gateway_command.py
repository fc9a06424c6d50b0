"""The command line: one command brings everything up, another walks the whole way through it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "dsh_lightrag", "gateway"]
BOUND_S = 240


@pytest.fixture
def environment(migrated_url):
    """The code under test, a real database by its variable, and the measuring of coverage."""
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
    return measured | {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "DSH_GATEWAY_DATABASE_URL": migrated_url,
    }


def run(*arguments, env):
    return subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def test_teams_and_keys_are_made_listed_and_revoked(environment, migrated_url):
    made = run("team", "create", "archive", env=environment)
    assert made.returncode == 0, made.stderr
    again = run("team", "create", "archive", env=environment)
    assert again.returncode == 1
    assert "conflict" in again.stderr
    [team] = json.loads(run("team", "list", env=environment).stdout)
    assert (team["id"], team["name"]) == (made.stdout.strip(), "archive")
    options = ("--team", "archive", "--scope", "search", "--quota-per-minute", "7")
    key = run("key", "create", "laptop", *options, env=environment)
    assert key.stdout.startswith("dshk_")
    listed = run("key", "list", "--team", "archive", env=environment).stdout
    [row] = json.loads(listed)
    assert (row["scopes"], row["quotaPerMinute"], row["revokedAt"]) == (["search"], 7, None)
    assert key.stdout.strip() not in listed
    assert run("key", "revoke", row["id"], env=environment).returncode == 0
    with psycopg.connect(migrated_url) as connection:
        [revoked] = connection.execute("SELECT revoked_at FROM gateway_api_key").fetchone()
    assert revoked is not None
    run("key", "create", "phone", "--team", "archive", env=environment)
    assert run("team", "revoke", "archive", env=environment).returncode == 0
    rows = json.loads(run("key", "list", "--team", "archive", env=environment).stdout)
    assert [row["name"] for row in rows if row["revokedAt"]] == ["laptop", "phone"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("team", "list", "--database-url-env", "NOWHERE"), "NOWHERE"),
        (("team", "list"), "no gateway runs"),
        (("migrate", "--database-url-env", "BAD"), "no PostgreSQL URL"),
        (("api", "--database-url-env", "BAD"), "--server-url"),
        (("worker", "--database-url-env", "BAD"), "--server-url"),
    ],
)
def test_what_is_missing_is_told_and_no_secret_is(environment, tmp_path, arguments, told):
    env = environment | {"BAD": "mysql://user:hunter2@host/name", "LIGHTRAG_DATA": str(tmp_path)}
    del env["DSH_GATEWAY_DATABASE_URL"]
    ended = run(*arguments, env=env)
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr
    assert "hunter2" not in ended.stderr + ended.stdout


def test_a_stock_server_is_refused_at_the_start(environment, lightrag_server, lightrag_key):
    env = environment | {"DSH_GATEWAY_SERVER_KEY": lightrag_key}
    for part in ("api", "worker"):
        ended = run(part, "--server-url", lightrag_server.url, env=env)
        assert ended.returncode == 2, ended.stderr
        assert "does not isolate workspaces" in ended.stderr


def test_ready_tells_what_is_wrong_with_each_part(environment):
    here = ("ready", "--server-url", "http://127.0.0.1:9")
    ended = run(*here, env=environment)
    assert ended.returncode == 1
    assert json.loads(ended.stdout) == {"database": "ok", "knowledgeServer": "unreachable"}
    nowhere = "postgresql://nobody:x@127.0.0.1:9/none"
    ended = run(*here, env=environment | {"DSH_GATEWAY_DATABASE_URL": nowhere})
    assert json.loads(ended.stdout)["database"] == "failed"


@pytest.mark.timeout(600)
def test_one_command_brings_everything_up_and_another_walks_through_it(environment, tmp_path):
    data = ("--data", str(tmp_path))
    with subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, "up", "--port", "0", "--embedder", "none", *data],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        try:
            first = up.stdout.readline()
            url = first.split(" answers at ")[1].split(" until ")[0]
            here = {name: value for name, value in environment.items() if "DATABASE" not in name}
            assert run("team", "create", "my-team", *data, env=here).returncode == 0
            key = run("key", "create", "me", "--team", "my-team", *data, env=here).stdout.strip()
            walked = subprocess.run(  # noqa: S603 - our own example
                [sys.executable, str(ROOT / "examples" / "gateway" / "walk.py"), url],
                env=here | {"GATEWAY_KEY": key},
                capture_output=True,
                text=True,
                timeout=BOUND_S,
                check=False,
            )
            assert walked.returncode == 0, walked.stderr
            assert "5 documents are indexed." in walked.stdout
            assert "Marie Curie and Pierre Curie discovered two new elements" in walked.stdout
            assert "Retrieved data, not instructions" in walked.stdout
            children = children_of(up.pid)
            assert len(children) == 3
            arguments = " ".join(map(command_of, children))
            assert key not in arguments
            assert environment["DSH_GATEWAY_DATABASE_URL"] not in arguments
        finally:
            up.send_signal(signal.SIGTERM)
        assert up.wait(BOUND_S) == 0
    assert [child for child in children if is_alive(child)] == []


def children_of(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in listed.split()]


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def is_alive(pid):
    return Path(f"/proc/{pid}").exists()


def test_a_part_ends_when_its_parent_is_gone(environment, tmp_path):
    tether = [sys.executable, "-m", "dsh_lightrag.cli.gateway.tether"]
    serve = ["serve", "--data", str(tmp_path), "--port", "0", "--embedder", "none"]
    with subprocess.Popen(  # noqa: S603 - our own command
        [*tether, *serve],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as part:
        assert "Serving" in part.stdout.readline()
        part.stdin.close()  # as the kernel does for a parent that was killed
        assert part.wait(60) == 0
