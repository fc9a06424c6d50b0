"""Our server as a program: a data folder, then `--flag value` for its settings."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.serve import serve
from dsh_lightrag.server.settings import ServerSettings

folder, *rest = sys.argv[1:]
flags = dict(zip(rest[::2], rest[1::2], strict=True))
data = Path(folder)
settings = ServerSettings(
    data=data,
    host=flags.get("--host", "127.0.0.1"),
    port=int(flags.get("--port", "0")),
    api_key=flags.get("--api-key", ""),
)
keeper = EmbeddedKeeper(EmbeddedSettings(data, embedder="none"))
asyncio.run(serve(keeper, settings, lambda url: print(url, flush=True)))  # noqa: T201 - asked for
