"""The OpenAPI document in the repository is the one that the routes give."""

from __future__ import annotations

import json
from pathlib import Path

from dsh_lightrag.gateway.api.app import routes_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "gateway-openapi.json"


def test_the_document_in_the_repository_is_up_to_date():
    told = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    assert told == routes_of(None).openapi(), "python docs/gateway_openapi.py"


def test_every_route_has_an_operation_id_of_its_own():
    paths = routes_of(None).openapi()["paths"]
    ids = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(ids) == len(set(ids)) == 18


def test_nothing_in_the_document_names_a_workspace_as_a_field():
    document = routes_of(None).openapi()
    names = set()

    def walk(node):
        if isinstance(node, dict):
            names.update(node.get("properties", {}))
            names.update(one["name"] for one in node.get("parameters", []))
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(document)
    assert "externalId" in names
    assert [name for name in names if "workspace" in name.lower()] == []
