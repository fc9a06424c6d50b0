"""The doctor: each fault is found by its own check, what it hides is not called well."""

from __future__ import annotations

import datetime as dt
import json
import socket
import ssl

import pytest
import trustme

from dsh_lightrag.cli import checks
from dsh_lightrag.settings import LightRagSettings

from .conftest import COUNTS, KEY, ROUTES, ran, serving

IDS = [
    *("endpoint", "dns", "loopback", "proxy", "tcp", "tls", "health", "version"),
    *("credentials", "routes", "embedding", "chat", "ingestion"),
]


@pytest.fixture
def examined(run):
    """Run the doctor for programs; returns its findings by id, having checked the envelope."""

    def examine(*flags, status):
        result = run("doctor", "--json", *flags)
        assert result.exit_code == status, result.stdout + result.stderr
        told = json.loads(result.stdout)
        assert [check["id"] for check in told["checks"]] == IDS
        assert all(list(check) == ["id", "ok", "what", "mend"] for check in told["checks"])
        assert told["ok"] is (status == 0)
        assert KEY not in result.output
        return {check["id"]: check for check in told["checks"]}

    return examine


def failed(findings):
    return [check_id for check_id, finding in findings.items() if finding["ok"] is False]


def not_run(findings):
    return [name for name, finding in findings.items() if finding["what"].startswith("not run")]


def counts(**more):
    return (200, {"status_counts": {**COUNTS, **more}})


@pytest.mark.usefixtures("server")
def test_a_well_deployment_has_nothing_to_mend(examined):
    findings = examined(status=0)
    assert {name for name, finding in findings.items() if finding["ok"] is not True} == {"tls"}
    assert not any(finding["mend"] for finding in findings.values())


def test_people_see_a_line_per_check_and_what_mends_it(run, server):
    server.replies["/documents/status_counts"] = counts(failed=1)
    result = run("doctor")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines if line[0] != " "] == IDS
    assert lines[-2].startswith("FAIL ingestion")
    assert "`dsh-lightrag documents --status failed` says why" in lines[-1]


# --- the way to the server --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--endpoint", "localhost:9621"], "no scheme"),
        (["--endpoint", "http://user:pass@h"], "carries credentials"),
        (["--endpoint", "http://h/lightrag"], "has a path"),
        (["--ca-file", "/nowhere.pem"], "caFile"),
    ],
)
def test_a_configuration_that_cannot_work_is_the_first_finding(examined, flags, said):
    findings = examined(*flags, status=1)
    assert failed(findings) == ["endpoint"]
    assert said in findings["endpoint"]["what"]
    assert findings["endpoint"]["mend"]
    assert not_run(findings) == IDS[1:]


def test_a_key_that_no_header_can_carry_is_found_and_not_shown(examined, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", f"{KEY}\n")
    assert failed(examined(status=1)) == ["endpoint"]


def test_a_name_that_does_not_resolve_is_found(examined):
    findings = examined("--endpoint", "http://nowhere.invalid:9621", status=1)
    assert failed(findings) == ["dns"]
    assert not_run(findings) == [name for name in IDS if name not in ("endpoint", "dns", "proxy")]


@pytest.fixture
def closed_port():
    """A port that is ours and does not listen."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_refused_loopback_tells_of_both_families(examined, closed_port, host):
    findings = examined("--endpoint", f"http://{host}:{closed_port}", status=1)
    assert failed(findings) == ["loopback"]
    assert "127.0.0.1: the connection was refused" in findings["loopback"]["what"]
    assert "::1: " in findings["loopback"]["what"]


@pytest.mark.parametrize("in_container", [True, False])
@pytest.mark.anyio
async def test_a_refused_loopback_inside_a_container_names_the_host(closed_port, in_container):
    def load():
        return LightRagSettings(endpoint=f"http://127.0.0.1:{closed_port}")

    findings = [one async for one in checks.examine(load, in_container=in_container)]
    loopback = next(one for one in findings if one.id == "loopback")
    assert loopback.ok is False
    assert (f"http://host.docker.internal:{closed_port}" in loopback.mend) is in_container


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_a_server_of_the_other_family_is_named(examined):
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        listener.listen()
        port = listener.getsockname()[1]
        findings = examined("--endpoint", f"http://127.0.0.1:{port}", status=1)
    assert failed(findings) == ["loopback"]
    assert f"http://[::1]:{port}" in findings["loopback"]["mend"]


def test_a_port_that_speaks_no_http_is_found(examined):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        findings = examined("--endpoint", endpoint, "--timeout-ms", "1000", status=1)
    assert failed(findings) == ["health"]
    assert "does not answer" in findings["health"]["mend"]


@pytest.mark.usefixtures("server")
def test_proxy_variables_are_named_and_their_values_are_not(examined, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://user:{KEY}@127.0.0.1:9")
    findings = examined(status=0)
    assert findings["proxy"]["what"] == "HTTP_PROXY set, and ignored"
    used = examined("--use-proxy", status=1)
    assert failed(used) == ["proxy"]
    assert "NO_PROXY" in used["proxy"]["mend"]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "no proxy applies" in examined("--use-proxy", status=0)["proxy"]["what"]


def test_through_a_proxy_nothing_below_http_is_probed(examined, monkeypatch):
    with serving() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("LIGHTRAG_ENDPOINT", "http://lightrag.invalid")
        for path in list(proxy.replies):  # a proxy is asked with the whole address
            proxy.replies[f"http://lightrag.invalid{path}"] = proxy.replies[path]
        findings = examined("--use-proxy", status=0)
    for name in ("dns", "tcp"):
        assert findings[name]["ok"] is None
        assert "proxy" in findings[name]["what"]
    assert findings["chat"]["ok"] is True


# --- TLS --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def ca_file(authority, tmp_path):
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def tls_of(authority, name="127.0.0.1", **options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, **options).configure_cert(context)
    return context


def test_a_trusted_certificate_is_told_with_its_end(examined, authority, ca_file):
    with serving(tls=tls_of(authority)) as server:
        findings = examined("--endpoint", server.url, "--ca-file", ca_file, status=0)
    assert findings["tls"]["ok"] is True
    assert "GMT" in findings["tls"]["what"]


def test_faults_of_a_certificate_are_told_apart(examined, authority, ca_file):
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    before = yesterday - dt.timedelta(days=9)
    for context, flags, mend in (
        (tls_of(authority), [], "caFile"),
        (tls_of(trustme.CA()), ["--ca-file", ca_file], "caFile"),
        (
            tls_of(authority, not_before=before, not_after=yesterday),
            ["--ca-file", ca_file],
            "expired",
        ),
        (tls_of(authority, "other.example"), ["--ca-file", ca_file], "certificate names"),
    ):
        with serving(tls=context) as server:
            findings = examined("--endpoint", server.url, *flags, status=1)
        assert failed(findings) == ["tls"]
        assert mend in findings["tls"]["mend"]
        assert not_run(findings) == IDS[IDS.index("health") :]


def test_https_to_a_port_without_tls_is_found(server, examined):
    findings = examined("--endpoint", server.url.replace("http", "https"), status=1)
    assert failed(findings) == ["tls"]
    assert "http://" in findings["tls"]["mend"]


def test_http_to_a_port_with_tls_is_found(examined, authority):
    with serving(tls=tls_of(authority)) as server:
        findings = examined("--endpoint", server.url.replace("https", "http"), status=1)
    assert failed(findings) == ["health"]
    assert "https://" in findings["health"]["mend"]


# --- the server -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((404, {"detail": "Not Found"}), "basePath"),
        ((200, b"<html>Log in</html>"), "no LightRAG server"),
        ((502, b"bad gateway"), "log"),
        ((200, {"status": "starting"}), "log"),
    ],
)
def test_a_server_that_is_not_well_or_not_lightrag_is_found(server, examined, reply, said):
    server.replies["/health"] = reply
    findings = examined(status=1)
    assert failed(findings) == ["health"]
    assert said in findings["health"]["mend"]
    assert not_run(findings) == IDS[IDS.index("version") :]


@pytest.mark.parametrize(
    ("core", "api", "ok"),
    [
        ("1.5.7", "0344", True),
        ("1.5.8", "0351", None),
        ("1.5.7", "0350", None),
        ("1.6.0", "0400", False),
        ("1.3.9", "0170", False),
        (None, None, False),
    ],
)
def test_versions_are_compared_with_what_was_tested(server, examined, core, api, ok):
    server.replies["/health"] = (
        200,
        {"status": "healthy", "core_version": core, "api_version": api},
    )
    findings = examined(status=1 if ok is False else 0)
    assert findings["version"]["ok"] is ok
    assert bool(findings["version"]["mend"]) is (ok is False)
    assert not_run(findings) == []


LOGIN = "No credentials provided. Please login."


@pytest.mark.parametrize(
    ("key", "status", "detail", "said"),
    [
        ("", 403, "API Key required", "asks for a key, and none is set"),
        (KEY, 403, "Invalid API Key", "does not accept this key"),
        ("", 401, LOGIN, "user accounts, and no key is set"),
        (KEY, 401, LOGIN, "user accounts and does not accept"),
        (KEY, 401, "Invalid token", "adds an Authorization header"),
        (KEY, 500, "Internal server error (error_id: 4f00)", "4f00"),
    ],
)
def test_refusals_of_the_key_are_told_apart(  # noqa: PLR0913, PLR0917 - a table of four columns
    server, examined, monkeypatch, key, status, detail, said
):
    monkeypatch.setenv("LIGHTRAG_API_KEY", key)
    server.replies["/documents/status_counts"] = (status, {"detail": detail})
    findings = examined(status=1)
    assert failed(findings) == ["credentials"]
    assert said in findings["credentials"]["what"]
    assert findings["credentials"]["mend"]
    assert not_run(findings) == ["embedding", "chat", "ingestion"]


@pytest.mark.usefixtures("server")
def test_a_key_that_nobody_checks_is_not_called_accepted(examined, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)
    assert "it was not checked" in examined(status=0)["credentials"]["what"]


def test_a_missing_route_is_named(server, examined):
    paths = {path: {method: {} for method in methods} for path, methods in ROUTES.items()}
    paths["/documents/delete_document"] = {"post": {}}
    del paths["/query/data"]
    server.replies["/openapi.json"] = (200, {"paths": paths})
    findings = examined(status=1)
    assert failed(findings) == ["routes"]
    assert "POST /query/data" in findings["routes"]["what"]
    assert "DELETE /documents/delete_document" in findings["routes"]["what"]


def test_a_server_that_publishes_no_routes_is_told_and_not_failed(server, examined):
    del server.replies["/openapi.json"]
    findings = examined(status=0)
    assert findings["routes"]["ok"] is None
    assert "not compared" in findings["routes"]["what"]


# --- behind the server ------------------------------------------------------------------------


def test_a_dead_embedding_model_is_found(server, examined):
    server.replies["/query/data"] = (500, {"detail": "Internal server error (error_id: ab12)"})
    findings = examined(status=1)
    assert failed(findings) == ["embedding"]
    assert "ab12" in findings["embedding"]["what"]


@pytest.mark.parametrize("flag", [{"llm_generated": False}, {}])
def test_a_dead_chat_model_is_found_in_an_answer_of_200(server, examined, flag):
    text = "No relevant context found for the query."
    server.replies["/query"] = (200, {"response": text, "references": [], **flag})
    assert failed(examined(status=1)) == ["chat"]


@pytest.mark.parametrize(
    ("more", "busy", "verdict"),
    [
        ({"failed": 2}, False, (False, "failed 2")),
        ({"pending": 3}, False, (False, "stand still")),
        ({"pending": 3}, True, (True, "busy")),
        ({"processed": 0, "all": 0}, False, (None, "find nothing yet")),
    ],
)
def test_the_state_of_ingestion_is_judged(server, examined, more, busy, verdict):
    ok, said = verdict
    server.replies["/documents/status_counts"] = counts(**more)
    health = server.replies["/health"][1]
    server.replies["/health"] = (200, {**health, "pipeline_busy": busy})
    findings = examined(status=1 if ok is False else 0)
    assert findings["ingestion"]["ok"] is ok
    assert said in findings["ingestion"]["what"]


def test_what_the_server_says_cannot_draw_on_the_terminal(server):
    server.replies["/health"] = (200, {"status": "\x1b[31m[red]ill", "core_version": "1"})
    status, out, _ = ran("doctor")
    assert status == 1
    assert b"\x1b" not in out
    assert b"[red]ill" in out
