"""A real LightRAG server on loopback, offline, with a stub where its models would be.

samples         five short documents to put into it
stub_model      the OpenAI-compatible stub, and the switches that make it fail
stub_replies    what the stub says: deterministic, and marked as a stub's words
server          the `lightrag-server` process: start, stop, kill
"""

from __future__ import annotations

from importlib import resources


def sample_documents() -> dict[str, str]:
    """Return the sample documents, file name to text, in the order of their names."""
    folder = resources.files(__name__) / "samples"
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".md")
    }
