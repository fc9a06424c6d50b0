"""Write docs/gateway-openapi.json from the gateway's routes.

python docs/gateway_openapi.py
"""

from __future__ import annotations

import json
from pathlib import Path

from dsh_lightrag.gateway.api.app import routes_of

DOCUMENT = Path(__file__).parent / "gateway-openapi.json"

if __name__ == "__main__":
    text = json.dumps(routes_of(None).openapi(), indent=2, ensure_ascii=False)
    DOCUMENT.write_text(f"{text}\n", encoding="utf-8")
