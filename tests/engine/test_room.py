"""The room itself: what it may import, and what it costs whoever does not use it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dsh_lightrag.engine as room

FILES = sorted(Path(room.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_engine_imports_nothing_of_ours_but_errors_and_text(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    ours = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dsh_lightrag")
    }

    assert {module for module in ours if not module.startswith("dsh_lightrag.engine")} <= {
        "dsh_lightrag.errors",
        "dsh_lightrag.text",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_file_has_more_than_one_subject_could_need(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400


def test_nothing_heavy_is_imported_until_it_is_used():
    script = (
        "import sys, dsh_lightrag\n"
        "first = {'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules)\n"
        "import dsh_lightrag.engine; then = {'onnxruntime', 'tokenizers'} & set(sys.modules)\n"
        "print(sorted(first | then))"
    )
    finished = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert finished.stdout == "[]\n"


def test_the_engine_says_which_extra_brings_what_it_lacks():
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "try: import dsh_lightrag.engine\n"
        "except ImportError as absent: print(absent)"
    )
    finished = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert "dsh-lightrag[server]" in finished.stdout


def test_every_public_name_is_listed_and_in_order():
    assert room.__all__ == sorted(room.__all__)
    assert all(hasattr(room, name) for name in room.__all__)
