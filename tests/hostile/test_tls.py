"""Certificates: only one of a known authority, in time and for this host gets a request."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import anyio
import pytest
import trustme

from dsh_lightrag import Code, toolbox

from . import behaviours as hostile
from .server import HostileServer
from .support import TOOL_NAMES, attempt, healthy, settings_for, try_call, until


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def ca_file(authority, tmp_path):
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def context_of(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def issued(authority, *names, **kwargs):
    return context_of(authority.issue_cert(*names, **kwargs))


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_certificate_of_the_configured_authority_is_accepted(tool, authority, ca_file):
    with HostileServer(healthy(), tls=issued(authority, "127.0.0.1")) as server:
        result = await attempt(server.url, tool, caFile=ca_file)
    assert result.code is None


async def test_a_certificate_for_localhost_is_accepted_for_localhost(authority, ca_file):
    with HostileServer(healthy(), tls=issued(authority, "localhost")) as server:
        result = await attempt(f"https://localhost:{server.port}", caFile=ca_file)
    assert result.code is None


YESTERDAY = datetime.now(UTC) - timedelta(days=1)
TOMORROW = datetime.now(UTC) + timedelta(days=1)
REFUSED = {
    "expired": lambda authority: issued(
        authority, "127.0.0.1", not_before=YESTERDAY - timedelta(days=30), not_after=YESTERDAY
    ),
    "not yet valid": lambda authority: issued(authority, "127.0.0.1", not_before=TOMORROW),
    "another host": lambda authority: issued(authority, "elsewhere.example"),
    "another address": lambda authority: issued(authority, "127.0.0.2"),
    "a name for an address": lambda authority: issued(authority, "localhost"),
    "another authority": lambda _: issued(trustme.CA(), "127.0.0.1"),
}


@pytest.mark.parametrize("certificate", REFUSED.values(), ids=REFUSED)
async def test_any_other_certificate_is_unreachable_and_gets_no_request(
    certificate, authority, ca_file
):
    with HostileServer(healthy(), tls=certificate(authority)) as server:
        result = await attempt(server.url, caFile=ca_file)
    assert result.code is Code.UNREACHABLE
    assert server.connections >= 1
    assert server.requests == []


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
async def test_an_unknown_authority_is_refused_whatever_the_environment_says(
    variable, authority, ca_file, monkeypatch
):
    """Without caFile the public authorities count; no variable adds one or switches them off."""
    monkeypatch.setenv(variable, ca_file)
    monkeypatch.setenv("PYTHONHTTPSVERIFY", "0")
    with HostileServer(healthy(), tls=issued(authority, "127.0.0.1")) as server:
        result = await attempt(server.url)
    assert result.code is Code.UNREACHABLE
    assert server.requests == []


async def test_a_server_that_speaks_no_tls_is_unreachable():
    with HostileServer(hostile.says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), reads_requests=False) as (
        server
    ):
        result = await attempt(f"https://127.0.0.1:{server.port}")
    assert result.code is Code.UNREACHABLE


async def test_a_tls_server_asked_in_the_clear_is_unreachable(authority):
    with HostileServer(healthy(), tls=issued(authority, "127.0.0.1")) as server:
        result = await attempt(f"http://127.0.0.1:{server.port}")
    assert result.code is Code.UNREACHABLE
    assert server.requests == []


async def test_a_handshake_that_stalls_is_a_timeout_and_its_connection_is_closed():
    with HostileServer(hostile.never_answers, reads_requests=False) as server:
        async with toolbox(settings_for(f"https://127.0.0.1:{server.port}")) as dispatcher:
            result = await try_call(dispatcher, "dsh_lightrag_query")
            await until(lambda: server.open_connections == 0)
    assert result.code is Code.TIMEOUT


async def test_a_call_cancelled_in_the_handshake_closes_its_connection():
    with HostileServer(hostile.never_answers, reads_requests=False) as server:
        settings = settings_for(f"https://127.0.0.1:{server.port}", timeoutMs=60_000)
        async with toolbox(settings) as dispatcher:
            with anyio.move_on_after(0.2) as scope:
                await try_call(dispatcher, "dsh_lightrag_query")
            await until(lambda: server.open_connections == 0)
    assert scope.cancelled_caught


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_an_old_version_of_tls_is_refused(authority, ca_file):
    context = issued(authority, "127.0.0.1")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with HostileServer(healthy(), tls=context) as server:
        result = await attempt(server.url, caFile=ca_file)
    assert result.code is Code.UNREACHABLE
    assert server.requests == []


@pytest.mark.parametrize(
    "behaviour", [hostile.reset_in_body, hostile.half_closes_in_body, hostile.closes_silently]
)
async def test_a_body_that_breaks_off_under_tls_is_unreachable(behaviour, authority, ca_file):
    """A TLS connection that ends without its closing message is no end of a body either."""
    with HostileServer(behaviour, tls=issued(authority, "127.0.0.1")) as server:
        result = await attempt(server.url, caFile=ca_file)
    assert result.code is Code.UNREACHABLE


async def test_a_redirect_from_tls_to_the_clear_is_not_followed(authority, ca_file):
    with HostileServer(healthy()) as plain:
        answer = hostile.redirect(308, f"{plain.url}/query")
        with HostileServer(answer, tls=issued(authority, "127.0.0.1")) as server:
            result = await attempt(server.url, caFile=ca_file)
    assert result.code is Code.BAD_RESPONSE
    assert plain.connections == 0
