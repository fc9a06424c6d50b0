"""The real LightRAG server as a child: it starts, dies with its log, and comes back."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from time import monotonic, sleep

import pytest

import dsh_lightrag.demo
from dsh_lightrag.demo import sample_documents
from dsh_lightrag.demo import server as server_module
from dsh_lightrag.demo.server import HOST, LightRagServer, ServerStartError
from dsh_lightrag.demo.stub_model import Backend, StubModel
from dsh_lightrag.demo.stub_replies import MARK, Ask
from dsh_lightrag.errors import MissingExtraError

WAIT_S = 30.0
KEY = "the-right-key"
NOWHERE = "http://127.0.0.1:9/v1"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def model():
    with StubModel() as stub:
        yield stub


@pytest.fixture(scope="module")
def server(model):
    """One server for the tests that leave it running; the parent's settings would break it."""
    with pytest.MonkeyPatch.context() as parent:
        parent.setenv("LIGHTRAG_API_KEY", "the key of the parent")
        parent.setenv("HTTP_PROXY", NOWHERE)
        parent.setenv("WORKSPACE", "elsewhere")
        with LightRagServer(model, api_key=KEY) as running:
            yield running
            workdir = running.workdir
    assert not workdir.exists()


def call(server, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    request = urllib.request.Request(server.url + path, data, headers)  # noqa: S310 - loopback
    with DIRECT.open(request, timeout=WAIT_S) as response:
        return json.load(response)


def eventually(condition):
    deadline = monotonic() + WAIT_S
    while not condition():
        assert monotonic() < deadline, "the condition did not come true in time"
        sleep(0.05)


def counts(server):
    return call(server, "/documents/status_counts")["status_counts"]


def insert(server, name, text):
    return call(server, "/documents/text", {"text": text, "file_source": name})


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_started_server_is_healthy_with_our_settings_and_not_the_parents(server):
    health = call(server, "/health")
    assert health["status"] == "healthy"
    assert health["configuration"]["workspace"] == ""
    assert Path(health["input_directory"]) == server.input_dir
    assert "Application startup complete" in server.log_tail()


def test_documents_become_answers_that_a_stub_signs(server):
    samples = sample_documents()
    insert(server, "marie-curie.md", samples["marie-curie.md"])
    eventually(lambda: counts(server)["processed"] == 1)
    answer = call(server, "/query", {"query": "Who discovered polonium?"})
    assert answer["response"].startswith(MARK)
    assert "Marie Curie and Pierre Curie discovered" in answer["response"]
    assert [reference["file_path"] for reference in answer["references"]] == ["marie-curie.md"]
    assert "Pierre Curie" in call(server, "/graph/label/list")


def test_a_slow_model_keeps_the_pipeline_busy_until_the_switch_turns(server, model):
    model.slow_s = 600
    asked = model.requests[Ask.EXTRACT]
    model.chat = Backend.SLOW
    try:
        insert(server, "rosetta-stone.md", sample_documents()["rosetta-stone.md"])
        eventually(lambda: model.requests[Ask.EXTRACT] > asked)
        assert call(server, "/health")["pipeline_busy"] is True
    finally:
        model.chat = Backend.OK
    eventually(lambda: call(server, "/health")["pipeline_active"] is False)


def test_a_killed_server_comes_back_with_its_data_at_its_url(server):
    insert(server, "turing.txt", "Alan Turing worked at Bletchley Park.")
    eventually(lambda: call(server, "/health")["pipeline_active"] is False)
    before, url, pid = counts(server), server.url, server.pid
    server.kill()
    assert gone(pid)
    with pytest.raises(urllib.error.URLError):
        call(server, "/health")
    server.start()
    assert server.url == url
    assert counts(server) == before


def test_a_server_whose_port_was_taken_moves_to_another(server):
    port = int(server.url.rpartition(":")[2])
    server.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((HOST, port))
        squatter.listen()
        server.start()
        assert call(server, "/health")["status"] == "healthy"
        assert not server.url.endswith(f":{port}")


@pytest.fixture
def lost_port():
    """A port that is bound but does not listen: only the child's own bind can notice."""
    with socket.socket() as squatter:
        squatter.bind((HOST, 0))
        yield squatter.getsockname()[1]


def test_a_port_that_is_lost_before_the_bind_is_replaced(model, monkeypatch, lost_port):
    choices = iter([lost_port, server_module.free_port()])
    monkeypatch.setattr(server_module, "free_port", choices.__next__)
    with LightRagServer(model, api_key=KEY) as server:
        assert call(server, "/health")["status"] == "healthy"
        assert not server.url.endswith(f":{lost_port}")


def test_a_port_that_is_lost_every_time_is_an_error(model, monkeypatch, lost_port):
    monkeypatch.setattr(server_module, "_PORT_ATTEMPTS", 1)
    monkeypatch.setattr(server_module, "free_port", lambda: lost_port)
    with pytest.raises(ServerStartError, match="error while attempting to bind"):
        LightRagServer(model).start()


def test_a_running_server_does_not_start_twice(server):
    with pytest.raises(RuntimeError, match="already"):
        server.start()


def test_a_server_that_dies_at_start_reports_its_log_and_leaves_nothing(model, tmp_path):
    server = LightRagServer(
        model, accounts="ada:secret", workdir=tmp_path, extra_env={"TOKEN_SECRET": ""}
    )
    with pytest.raises(ServerStartError, match="TOKEN_SECRET must be explicitly set"):
        server.start()
    with pytest.raises(RuntimeError):
        _ = server.pid
    assert "TOKEN_SECRET" in server.log_tail()


def test_a_server_that_is_not_ready_in_time_is_ended():
    server = LightRagServer(NOWHERE, start_timeout_s=0.2)
    with pytest.raises(ServerStartError, match=r"not ready after 0\.2 s"):
        server.start()
    with pytest.raises(RuntimeError):
        _ = server.workdir


def test_before_its_start_a_server_has_no_url_and_no_log():
    server = LightRagServer(NOWHERE)
    with pytest.raises(RuntimeError):
        _ = server.url
    assert server.log_tail() == ""
    server.stop()
    server.kill()
    server.close()


def test_without_lightrag_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightrag", None)
    with pytest.raises(MissingExtraError) as error:
        LightRagServer(NOWHERE).start()
    assert error.value.extra == "lightrag"


@pytest.mark.skipif(sys.platform == "win32", reason="asks the system about a process id")
@pytest.mark.parametrize("end", ["exit", "interrupt"])
def test_the_server_does_not_outlive_a_parent_that_forgot_it(end):
    script = (
        "from dsh_lightrag.demo.server import LightRagServer\n"
        f"server = LightRagServer({NOWHERE!r})\n"
        "server.start()\n"
        "print(server.pid, server.workdir, flush=True)\n"
    )
    if end == "interrupt":
        script += "input()\n"
    source = Path(dsh_lightrag.demo.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        pid, workdir = parent.stdout.readline().split()
        if end == "interrupt":
            parent.send_signal(signal.SIGINT)
        parent.wait(WAIT_S)
    assert gone(int(pid))
    assert not Path(workdir).exists()
