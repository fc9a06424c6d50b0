"""The command `dsh-lightrag`: the composition root, which reads settings and builds one thing.

app         the commands, and how each of them ends
options     every setting as a flag
machine     tools, call: JSON for programs
people      query, documents, status, insert, scan, delete: the same tools for people
views       how people see a result
attest      whether a profile and a preset offer what they promise
harness     dsh-patch, dsh-bundle: what the DeepSeek Harness is given to mount the tools
doctor      what is wrong with a deployment, check by check (checks, network, compatibility)
mcp         the command `mcp` for those who come by Typer
hosting     serve, ingest, up, bases: the embedded server, and what is in it
gateway     gateway up, migrate, api, worker, team, key: many teams' bases as a service
demo        a server on bundled documents, ours or the real LightRAG, and the read tools against it
calls       one tool call, and the envelope that programs read
terminal    answers on stdout, everything else on stderr
"""

from __future__ import annotations

from dsh_lightrag.cli.app import run

__all__ = ["run"]
