"""The host side: what a host offers, and how profiles, presets and allow-lists are attested."""

from __future__ import annotations

from dsh_lightrag.harness.attestation import Attestation, AttestedTool, Refusal, attest
from dsh_lightrag.harness.host import (
    Disposer,
    DuplicateToolError,
    ReferenceHost,
    RegisteredTool,
    ToolHost,
)

__all__ = [
    "Attestation",
    "AttestedTool",
    "Disposer",
    "DuplicateToolError",
    "ReferenceHost",
    "Refusal",
    "RegisteredTool",
    "ToolHost",
    "attest",
]
