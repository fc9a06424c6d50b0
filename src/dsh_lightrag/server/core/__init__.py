"""The second backend: LightRAG's own core, many workspaces in one process.

settings      what a keeper is built from, and what of it is refused
models        the two models as protocols, their shared bound, and what a document costs
gate          at most so many calls at once, questions before documents
inside        all that is taken from inside LightRAG: its globals, its environment, its class
registry      which workspaces there are, and which process holds one: a protocol
folders       … kept in folders
tables        … kept in PostgreSQL
keeper        makes, opens and drops workspaces
backend       one open workspace
pipeline      LightRAG's pipeline of one workspace: reserve, process, delete, retry
asking        a question in LightRAG's words, and its answer in ours
rows          LightRAG's document rows and pipeline state in ours

LightRAG is imported when a keeper is built, so importing this package costs nothing.
"""

from __future__ import annotations

from dsh_lightrag.server.core.keeper import CoreKeeper, keeper_of
from dsh_lightrag.server.core.models import ChatModel, ChatReply, EmbeddingModel
from dsh_lightrag.server.core.settings import CoreSettings, Graph

__all__ = [
    "ChatModel",
    "ChatReply",
    "CoreKeeper",
    "CoreSettings",
    "EmbeddingModel",
    "Graph",
    "keeper_of",
]
