"""Rules for every test: asyncio, no variable of the machine, and nothing skipped in CI."""

from __future__ import annotations

import os
import signal

import pytest


@pytest.fixture(scope="session")
def anyio_backend():
    """The pool is bound to an asyncio loop."""
    return "asyncio"


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores interrupts and hands that on to every child; the tests send
    # some on purpose.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No proxy, no LIGHTRAG_ variable and no terminal's width of the machine takes part."""
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.upper().startswith("LIGHTRAG_"):
            monkeypatch.delenv(name)


# --- nothing is skipped in CI -----------------------------------------------------------------


def _fail_if_skipped(report):
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """A test that is skipped while CI is set has failed."""
    return _fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """So has a module that skips itself."""
    return _fail_if_skipped((yield))


# --- the real server --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def lightrag_key():
    """The key that the real server asks for."""
    return "the-real-server-key-5521"


@pytest.fixture(scope="session")
def stub_model():
    """The stub behind the real server; a test that makes it fail sets it right again."""
    # Here and below: only the end-to-end tests need the demo.
    from dsh_lightrag.demo.stub_model import StubModel  # noqa: PLC0415 - as above

    with StubModel() as model:
        yield model


@pytest.fixture(scope="session")
def lightrag_server(stub_model, lightrag_key):
    """The real LightRAG server, keyed, empty at first."""
    from dsh_lightrag.demo.server import LightRagServer  # noqa: PLC0415 - as above

    with LightRagServer(stub_model, api_key=lightrag_key) as server:
        yield server


# --- the real database ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL for the session. Who kills it starts one of their own instead."""
    from postgres import running_postgres  # noqa: PLC0415 - only tests of a database need it

    with running_postgres() as server:
        yield server


@pytest.fixture
def database_url(postgres):
    """An empty database of a test's own."""
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)
