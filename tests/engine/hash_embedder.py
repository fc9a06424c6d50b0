"""A hashing embedder: offline, instant, and near for texts that share words."""

from __future__ import annotations

import hashlib

import numpy as np

from dsh_lightrag.engine.terms import terms


class HashEmbedder:
    """Each term adds one random but fixed direction."""

    def __init__(self, identity="hash-1", dimension=32):
        self.identity, self.dimension = identity, dimension
        self.asked = 0

    def embed(self, texts, *, query):
        self.asked += 0 if query else len(texts)
        return np.array([self._row(text) for text in texts])

    def _row(self, text):
        row = np.full(self.dimension, 1e-3)
        for term in terms(text):
            seed = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "big")
            row += np.random.default_rng(seed).standard_normal(self.dimension)
        return row
