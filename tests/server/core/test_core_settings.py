"""What a keeper is built from: the database's URL, Apache AGE, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.server.core import Graph, keeper_of
from dsh_lightrag.server.core.settings import database_variables
from dsh_lightrag.server.core.tables import refuse_age


def test_a_url_becomes_lightrags_variables():
    variables = database_variables(
        "postgresql://kb%40team:p%2Fw@db.example:6432/kb?sslmode=verify-full&sslrootcert=/ca.pem"
    )
    assert variables == {
        "POSTGRES_HOST": "db.example",
        "POSTGRES_PORT": "6432",
        "POSTGRES_USER": "kb@team",
        "POSTGRES_PASSWORD": "p/w",
        "POSTGRES_DATABASE": "kb",
        "POSTGRES_SSL_MODE": "verify-full",
        "POSTGRES_SSL_CERT": "",
        "POSTGRES_SSL_KEY": "",
        "POSTGRES_SSL_ROOT_CERT": "/ca.pem",
        "POSTGRES_SSL_CRL": "",
        "POSTGRES_WORKSPACE": "",
    }


def test_a_socket_and_what_is_left_out_get_their_usual_values():
    variables = database_variables("postgresql://postgres:@/kb?host=/run/pg")
    assert (variables["POSTGRES_HOST"], variables["POSTGRES_PORT"]) == ("/run/pg", "5432")
    assert database_variables("postgres://")["POSTGRES_DATABASE"] == "postgres"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://db/kb",
        "db.example",
        "postgresql://db:port/kb",
        "postgresql://[::1/kb",
        "postgresql://db/kb?application_name=x",
    ],
)
def test_a_url_that_would_not_be_used_as_written_is_refused(url):
    with pytest.raises(ConfigurationError) as refused:
        database_variables(url)
    assert url not in str(refused.value)  # it may hold a password


@pytest.mark.parametrize("version", [None, "1.8.0", "1.10.0", "2.0.0", "nonsense"])
def test_apache_age_from_1_8_on_is_refused(version):
    with pytest.raises(ConfigurationError, match="PGTableGraphStorage"):
        refuse_age(version)


@pytest.mark.parametrize("version", ["1.6.0", "1.7.0"])
def test_apache_age_before_1_8_may_be_used(version):
    refuse_age(version)


async def test_a_database_without_apache_age_says_so(database_url, on_files):
    keeper = keeper_of(replace(on_files, database_url=database_url, graph=Graph.AGE))
    try:
        with pytest.raises(ConfigurationError, match="has no Apache AGE"):
            await keeper.names()
    finally:
        await keeper.close()


async def test_what_is_told_of_the_configuration_holds_no_secret(settings, keeping):
    async with keeping(settings) as keeper:
        told = keeper.configuration()
        assert (keeper.kind, keeper.answers) == ("lightrag", True)
        assert told["llm_model"] == "stub-chat"
        assert str(settings.data) not in repr(told)
        if settings.database_url:
            assert settings.database_url not in repr(told) + repr(settings)
