"""The rules of the test suite itself: in CI nothing is skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent.parent / "conftest.py"


@pytest.fixture
def run(tmp_path):
    """Return a run of pytest over one module, under this suite's conftest."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")

    def run_module(source, **environment):
        (tmp_path / "test_it.py").write_text(f"import pytest\n{source}", encoding="utf-8")
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CI", "PYTEST_ADDOPTS")
        }
        return subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
            cwd=tmp_path,
            env=inherited | environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            timeout=60,
            check=False,
        ).returncode

    return run_module


def test_a_skipped_test_fails_the_run_in_ci_and_only_there(run):
    source = "@pytest.mark.skip(reason='no reason')\ndef test_it():\n    pass\n"
    assert run(source) == 0
    assert run(source, CI="true") == 1


def test_so_does_a_module_that_skips_itself(run):
    source = "pytest.importorskip('no_such_module')\ndef test_it():\n    pass\n"
    assert run(source, CI="true") not in (0, 5)


def test_no_variable_of_the_machine_reaches_a_test(run):
    source = (
        "import os\n"
        "def test_it():\n"
        "    names = [n for n in os.environ if n.startswith('LIGHTRAG_') or 'proxy' in n.lower()]\n"
        "    assert names == []\n"
    )
    assert run(source, LIGHTRAG_API_KEY="x", HTTP_PROXY="http://p", https_proxy="http://p") == 0
