"""Workspaces over our own engine: `EmbeddedKeeper` makes, opens and drops them.

identity    LightRAG's names and ids of documents
faults      the engine's errors as the seam's
threads     where blocking calls run
embedding   one local model for all workspaces, questions first
documents   documents in, rows out
evidence    what was found, in LightRAG's shapes and limits
wording     quotations, the context block, the prompt
pipeline    what a workspace is busy with
"""

from dsh_lightrag.server.embedded.backend import EmbeddedBackend
from dsh_lightrag.server.embedded.keeper import EmbeddedKeeper, EmbeddedSettings

__all__ = ["EmbeddedBackend", "EmbeddedKeeper", "EmbeddedSettings"]
