"""LightRAG's own web page before our routes, out of an installed `lightrag-hku`.

The page's files are for everybody; what it asks of the routes needs the key that its user types in.
It shows strangers' text as Markdown, and may therefore load from and send to this server alone.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dsh_lightrag.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

PATH = "/webui/"
_INDEX, _ICON, _ASSETS = "index.html", "favicon.png", "assets"
# Where the page's HTML leaves room for what its server tells it, and what ours tells.
_ROOM = "<!-- __LIGHTRAG_RUNTIME_CONFIG__ -->"
_CONFIG = f'window.__LIGHTRAG_CONFIG__ = {{"apiPrefix": "", "webuiPrefix": "{PATH}"}};'
_DIGEST = base64.b64encode(hashlib.sha256(_CONFIG.encode()).digest()).decode()
_POLICY = "; ".join(
    (
        "default-src 'self'",
        f"script-src 'self' 'sha256-{_DIGEST}'",
        "style-src 'self' 'unsafe-inline'",  # the page places its parts by style attributes
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self' blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
# The page asks for its operator's texts and logo; there are none.
_CUSTOM = "/ui/customization"
_PLAIN = {"customized": False, "brand": {"title": "LightRAG", "description": "dsh-lightrag"}}
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


def installed_folder() -> Path:
    """Return the page's folder in the installed package, which is not imported.

    Raises:
        ConfigurationError: the package is not installed, or brings no page that this can serve.
    """
    found = importlib.util.find_spec("lightrag")
    for place in (found.submodule_search_locations if found else None) or ():
        folder = Path(place) / "api" / "webui"
        if (folder / _ASSETS).is_dir() and _ROOM in _page(folder):
            return folder
    raise ConfigurationError(
        "--web-ui", "LightRAG's web page is not installed.", "pip install 'dsh-lightrag[lightrag]'."
    )


def _page(folder: Path) -> str:
    """Return the page's HTML; empty where there is none."""
    index = folder / _INDEX
    return index.read_text(encoding="utf-8") if index.is_file() else ""


def routes_of(folder: Path) -> list[BaseRoute]:
    """Return the routes that serve the page."""
    page = _page(folder).replace(_ROOM, f"<script>{_CONFIG}</script>")

    async def index(_: Request) -> HTMLResponse:
        return HTMLResponse(page, headers=_HEADERS)

    async def icon(_: Request) -> FileResponse:
        return FileResponse(folder / _ICON)

    async def custom(_: Request) -> JSONResponse:
        return JSONResponse(_PLAIN)

    return [
        Route(PATH, index),
        Route(_CUSTOM, custom),
        Route(PATH + _ICON, icon),
        Mount(PATH + _ASSETS, StaticFiles(directory=folder / _ASSETS)),
    ]
