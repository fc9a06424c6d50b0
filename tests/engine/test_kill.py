"""A process killed at any moment: what it acknowledged is there, and nothing is half there."""

from __future__ import annotations

import pytest
from killing import kill_and_check

RUNS = 10


@pytest.mark.timeout(60 + 20 * RUNS)
def test_a_killed_writer_loses_nothing_it_acknowledged_and_leaves_nothing_half_done(path):
    checks = list(kill_and_check(path, RUNS))

    assert len(checks) == RUNS
    assert checks[-1][0] >= RUNS  # every writer had written before it was killed
