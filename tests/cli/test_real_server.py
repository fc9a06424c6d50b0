"""The command against the real LightRAG server: the doctor, the demo and their endings."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from dsh_lightrag.demo.server import LightRagServer
from dsh_lightrag.demo.stub_model import Backend, StubModel

from .conftest import KEY, ran, spawned
from .hosting import listed, write

DEMO_S = 150

# LightRAG waits up to 10 s between two tries of a failing backend.
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def model():
    with StubModel() as stub:
        yield stub


@pytest.fixture(scope="module")
def real(model):
    """A keyed server of its own: the doctor's verdict must not hang on other tests."""
    with LightRagServer(model, api_key=KEY) as server:
        yield server


@pytest.fixture
def doctor(real):
    def examine(*flags, key=KEY):
        env = {"LIGHTRAG_API_KEY": key, "LIGHTRAG_ENDPOINT": real.url}
        status, out, err = ran("doctor", "--json", *flags, env=env)
        assert KEY.encode() not in out + err
        findings = {check["id"]: check for check in json.loads(out)["checks"]}
        assert status == int(any(check["ok"] is False for check in findings.values()))
        return [name for name, check in findings.items() if check["ok"] is False], findings

    return examine


def test_the_doctor_finds_a_fresh_server_well_and_empty(doctor):
    failed, findings = doctor()
    assert failed == []
    assert findings["version"]["what"] == "LightRAG 1.5.7, API 0344: tested"
    assert findings["credentials"]["what"] == "the key is accepted"
    assert findings["routes"]["ok"] is True
    assert findings["chat"]["ok"] is True
    assert findings["ingestion"]["ok"] is None


def test_the_doctor_tells_a_wrong_key_from_none(doctor):
    failed, findings = doctor(key="wrong")
    assert failed == ["credentials"]
    assert "does not accept this key" in findings["credentials"]["what"]
    failed, findings = doctor(key="")
    assert failed == ["credentials"]
    assert "none is set here" in findings["credentials"]["what"]


@pytest.mark.parametrize(("part", "check"), [("chat", "chat"), ("embeddings", "embedding")])
def test_the_doctor_finds_the_model_that_is_dead(doctor, model, part, check):
    setattr(model, part, Backend.UNAUTHORIZED)
    try:
        failed, _ = doctor()
    finally:
        setattr(model, part, Backend.OK)
    assert failed == [check]


def test_files_are_ingested_into_the_real_server_and_changed_ones_replaced(real, tmp_path):
    docs = tmp_path / "docs"
    write(docs, hopper="Grace Hopper wrote the first compiler.", team__notes="Alan Kay speaks.")
    env = {
        "LIGHTRAG_API_KEY": KEY,
        "LIGHTRAG_ENDPOINT": real.url,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    assert counted(ran("ingest", docs, "--json", env=env)) == {"added": 2}
    write(docs, hopper="Grace Hopper worked on COBOL.")
    assert counted(ran("ingest", docs, "--json", env=env)) == {"replaced": 1, "unchanged": 1}
    (docs / "team" / "notes.md").unlink()
    assert counted(ran("ingest", docs, "--prune", "--json", env=env)) == {
        "removed": 1,
        "unchanged": 1,
    }
    names = listed(real.url, env=env)
    assert names["hopper.md"] == "processed"
    assert "team__notes.md" not in names


def counted(ending):
    status, out, err = ending
    assert status == 0, err
    return {kind: count for kind, count in json.loads(out)["counts"].items() if count}


def test_a_document_goes_in_and_comes_out_by_the_command(real, tmp_path):
    env = {"LIGHTRAG_API_KEY": KEY, "LIGHTRAG_ENDPOINT": real.url, "LIGHTRAG_WRITES__ENABLED": "1"}
    file = tmp_path / "turing.md"
    file.write_text("Alan Turing worked at Bletchley Park in Buckinghamshire.", encoding="utf-8")
    status, out, err = ran("insert", "--file", file, "--json", env=env)
    assert status == 0, err
    assert json.loads(out)["result"]["source"] == "turing.md"
    assert ran("insert", "--file", file, env=env)[0] == 1  # a conflict
    status, out, _ = ran("status", env=env)
    assert status == 0
    assert b"lets this deployment in" in out


def test_the_demo_of_lightrag_runs_the_read_tools_and_says_what_is_a_stub():
    status, out, err = ran("demo", "--lightrag")
    text = out.decode()
    assert status == 0, err
    for said in (
        "A stub: the language and embedding models",
        "$ dsh-lightrag call dsh_lightrag_status",
        "$ dsh-lightrag call dsh_lightrag_documents",
        "marie-curie.md",
        "[stub model]",
        "$ dsh-lightrag call dsh_lightrag_query_data",
    ):
        assert said in text
    assert b"Traceback" not in err


def test_the_demo_answers_with_evidence_and_says_that_all_of_it_is_local():
    status, out, err = ran("demo")
    text = out.decode()
    assert status == 0, err
    for said in (
        "All of it is local",
        "There is no chat model",
        "documents  processed 5, all 5",
        "$ dsh-lightrag call dsh_lightrag_query ",
        "[1] marie-curie.md",
        "Polonium was named after Poland",
        "Evidence (mode naive): 1 passage(s)",
    ):
        assert said in text
    assert err == b""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("flags", [(), ("--lightrag",)], ids=["ours", "lightrag"])
def test_a_kept_demo_answers_until_it_is_ended_and_leaves_nothing(tmp_path, flags, number, status):
    with spawned("demo", *flags, "--keep", env={"TMPDIR": str(tmp_path)}) as process:
        for line in process.stdout:
            if line.startswith(b"export LIGHTRAG_ENDPOINT="):
                break
        endpoint = line.decode().strip().partition("=")[2]
        assert ran("status", "--endpoint", endpoint)[0] == 0
        process.send_signal(number)
        _, err = process.communicate(timeout=DEMO_S)
    assert process.returncode == status
    assert b"Traceback" not in err
    assert list(Path(tmp_path).glob("dsh-lightrag-demo-*")) == []
    assert ran("status", "--endpoint", endpoint)[0] == 1


def test_without_lightrag_the_demo_names_the_extra_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightrag", None)
    result = run("demo", "--lightrag")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "pip install 'dsh-lightrag[lightrag]'" in result.stderr
