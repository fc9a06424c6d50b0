"""The second backend: LightRAG's own core, many workspaces in one process.

settings      what a keeper is built from, and what of it is refused
models        the two models behind one bound, and what a document costs
environment   the process's variables that LightRAG reads
inside        all that is taken from inside LightRAG: its class, globals, log and tokenizer
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
from dsh_lightrag.server.core.settings import CoreSettings, Graph

__all__ = [
    "CoreKeeper",
    "CoreSettings",
    "Graph",
    "keeper_of",
]
