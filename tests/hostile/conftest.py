"""A rule for every hostile test: nothing told in any log."""

from __future__ import annotations

import logging

import pytest

from .replies import QUESTION
from .support import KEY


@pytest.fixture(autouse=True)
def logs_tell_nothing(capfd, caplog):
    """Neither the key nor the question is in any log record; stdout stays empty.

    A host that logs everything at DEBUG must not make the HTTP libraries tell either.
    """
    caplog.set_level(logging.DEBUG)
    yield
    printed = capfd.readouterr()
    assert printed.out == ""
    records = "\n".join(record.getMessage() for record in caplog.get_records("call"))
    for text in (printed.err, records):
        assert KEY not in text
        assert QUESTION not in text
