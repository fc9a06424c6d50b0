"""Kills at random: the script of `benchmarks/`, with fewer runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gateway_faults.py"
RUNS = 10
BOUND_S = 900


@pytest.mark.timeout(BOUND_S + 30)
def test_after_any_kill_one_version_of_each_document_is_left_and_nothing_is_stuck():
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, SCRIPT, "--runs", str(RUNS), "--seed", "7"],
        check=False,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["broken"] == 0
