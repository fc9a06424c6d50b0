"""The compose file: who reaches whom, where secrets come from, and that its commands exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from dsh_lightrag.cli.app import app

ROOT = Path(__file__).parents[2]
FILE = YAML(typ="safe").load((ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8"))
SERVICES = FILE["services"]


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "postgres"])
def test_every_command_is_one_that_the_program_takes(name):
    told = CliRunner().invoke(app, [*SERVICES[name]["command"], "--help"])

    assert told.exit_code == 0, told.output


def test_only_api_and_worker_share_a_network_with_the_knowledge_server():
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}
    near = {name for name in networks if networks[name] & networks["server"]}

    assert near == {"server", "api", "worker"}
    assert FILE["networks"]["knowledge"] == {"internal": True}


def test_no_secret_and_no_workspace_stands_in_the_file():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert "WORKSPACE" not in name
            if any(word in name for word in ("KEY", "PASSWORD", "URL")):
                assert "${" in value


def test_only_the_api_is_published_and_on_loopback_alone():
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert ports == {"api": ["127.0.0.1:9630:9630"]}


def test_the_foreign_image_is_named_by_digest():
    assert "@sha256:" in SERVICES["postgres"]["image"]
    for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines():
        assert not line.startswith("FROM") or "@sha256:" in line
