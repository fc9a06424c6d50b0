"""The server as a process: its port, its lock file, its end, and what a successor finds."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat

import httpx
import pytest
from our_server import Process, settled_over

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.listening import bind
from dsh_lightrag.server.lock import DataLock, running_server
from dsh_lightrag.server.settings import ServerSettings

CURIE = {"text": "Marie Curie discovered Polonium in Paris.", "file_source": "curie.txt"}


def test_the_lock_file_says_where_the_server_is_while_it_lives(serving, tmp_path):
    data = tmp_path / "data"
    server = serving(data=data)
    file = data / "server.json"
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "url": server.url,
        "pid": server.process.pid,
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert running_server(data).url == server.url
    assert server.end() == ""
    assert server.process.returncode == 0
    assert not file.exists()
    assert running_server(data) is None


def test_a_second_server_on_the_same_folder_is_refused_and_harms_nothing(serving, tmp_path):
    data = tmp_path / "data"
    first = serving(data=data)
    second = Process(data)
    assert second.url == ""
    assert f"--data: is served already at {first.url}." in second.end()
    assert running_server(data).url == first.url
    assert httpx.get(f"{first.url}/health").status_code == 200


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_however_a_server_ends_its_documents_and_its_folder_are_there(serving, tmp_path, ending):
    data = tmp_path / "data"
    first = serving(data=data)
    with httpx.Client(base_url=first.url) as client:
        assert client.put("/workspaces/team_a").status_code == 201
        assert client.post("/documents/text", json=CURIE).status_code == 200
    first.process.send_signal(ending)
    first.process.wait(30)
    assert running_server(data) is None
    second = serving(data=data)
    assert running_server(data).pid == second.process.pid
    with httpx.Client(base_url=second.url) as client:
        assert client.get("/workspaces").json() == {"workspaces": ["default", "team_a"]}
        (row,) = settled_over(client, of=1)
        assert (row["file_path"], row["status"]) == ("curie.txt", "processed")


def test_a_stale_lock_file_counts_for_nothing(tmp_path):
    left = {"url": "http://127.0.0.1:1", "pid": os.getpid()}
    (tmp_path / "server.json").write_text(json.dumps(left), encoding="utf-8")
    assert running_server(tmp_path) is None
    with DataLock(tmp_path) as lock:
        assert running_server(tmp_path).pid == os.getpid()  # not announced yet: as it was found
        lock.announce("http://127.0.0.1:9")
        assert running_server(tmp_path).url == "http://127.0.0.1:9"
        with pytest.raises(ConfigurationError, match="served already at http://127"):
            DataLock(tmp_path).__enter__()
    assert running_server(tmp_path) is None
    with DataLock(tmp_path):
        assert (tmp_path / "server.json").exists()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (tmp_path / "server.json").symlink_to(victim)
    with pytest.raises(ConfigurationError):
        DataLock(tmp_path).__enter__()
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_taken_port_is_told_before_anything_is_served(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = Process(tmp_path / "data", "--port", str(port))
        assert server.url == ""
        assert "--port: cannot be listened on" in server.end()
    assert running_server(tmp_path / "data") is None


def test_localhost_is_both_of_its_addresses():
    sockets = bind("localhost", 0)
    try:
        assert len({one.getsockname()[1] for one in sockets}) == 1
        assert "127.0.0.1" in {one.getsockname()[0] for one in sockets}
    finally:
        for one in sockets:
            one.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "kb.example"])  # noqa: S104 - refused
def test_off_loopback_a_key_is_needed(tmp_path, host):
    with pytest.raises(ConfigurationError, match="--host: is not loopback"):
        ServerSettings(data=tmp_path, host=host)
    assert "k" * 20 not in repr(ServerSettings(data=tmp_path, host=host, api_key="k" * 20))


@pytest.mark.parametrize(
    "fields",
    [
        {"port": -1},
        {"port": 65_536},
        {"api_key": "a b"},
        {"api_key": "ä"},
        {"host": ""},
        {"allowed_hosts": ("http://a",)},
        {"allowed_origins": ("a",)},
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, fields):
    with pytest.raises(ConfigurationError):
        ServerSettings(data=tmp_path, **fields)


@pytest.mark.parametrize("host", ["not a host", "192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_ours_is_the_hosts_fault(host):
    with pytest.raises(ConfigurationError, match="--host"):
        bind(host, 0)


def test_no_answer_waits_for_the_receipt_of_its_first_half():
    (listener,) = bind("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname(), timeout=30):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
