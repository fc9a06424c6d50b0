"""Profiles and presets as text, and the names that they are about."""

from __future__ import annotations

from dsh_lightrag.harness import attest

READS = ["dsh_lightrag_query", "dsh_lightrag_documents", "dsh_lightrag_status"]
WRITES = ["dsh_lightrag_insert", "dsh_lightrag_scan", "dsh_lightrag_delete"]
EVIDENCE = "dsh_lightrag_query_data"

READER = "- {id: kb, name: dsh-lightrag}\n"
WRITER = "- {id: kb, name: dsh-lightrag, config: {writes: {enabled: true}}}\n"


def attested(tmp_path, profile, preset=READER, deployment=None):
    """Write the files and attest them."""
    (tmp_path / "cordis.yml").write_text(profile, encoding="utf-8")
    (tmp_path / "agent.cordis.yml").write_text(preset, encoding="utf-8")
    paths = [tmp_path / "cordis.yml", tmp_path / "agent.cordis.yml"]
    if deployment is not None:
        (tmp_path / "deployment.yml").write_text(deployment, encoding="utf-8")
        paths.append(tmp_path / "deployment.yml")
    return attest(*paths)


def preset_with(tool_filter):
    """A preset of one row that carries a toolFilter."""
    return f"- {{id: kb, name: dsh-lightrag, toolFilter: {tool_filter}}}\n"


def lockdown(*names):
    """A row of a deployment that carries a policy."""
    policy = f"{{toolPolicy: {{allow: [{', '.join(names)}]}}}}"
    return f"- {{id: qa, name: '@yadsh/dsh-qa-surface', config: {{lockdown: {policy}}}}}\n"


def names_of(attestation):
    return [tool.name for tool in attestation.tools]
