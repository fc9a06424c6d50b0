"""Track ids: what an insertion, an upload and a scan are followed by."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Literal


def new_track_id(kind: Literal["insert", "upload", "scan"]) -> str:
    """Return an id in LightRAG's form, `insert_20260131_120000_1a2b3c4d`."""
    now = datetime.now(UTC)
    return f"{kind}_{now:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"
