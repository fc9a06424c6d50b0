"""Exactly the tools that the agents of a preset may call, under the settings of a profile's row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.harness.attestation import attest
from dsh_lightrag.harness.profiles import read_rows
from dsh_lightrag.settings import LightRagSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

API_KEY = "api_key"


def attested(
    profile: Path | None, preset: Path | None, deployment: Path | None, flags: Mapping[str, Any]
) -> tuple[LightRagSettings, frozenset[str]]:
    """Return the profile's settings and the names that the preset is attested for.

    Raises:
        ConfigurationError: the attestation is refused; a file is missing; or flags set what
            stands in the profile, since what is served must be what the files say.
    """
    if profile is None or preset is None:
        raise ConfigurationError("--profile", "goes with --preset.", "Give both.")
    for key in flags:
        if key != API_KEY:  # a profile may leave it to the environment
            flag = f"--{key.replace('_', '-')}"
            raise ConfigurationError(flag, "stands in the profile.", f"Take {flag} out, or there.")
    attestation = attest(profile, preset, deployment)
    row = read_rows(profile).own_row()
    if attestation.refused or row is None:
        first = attestation.refused[0]
        raise ConfigurationError(first.name, first.reason, first.hint)
    settings = row.settings()
    if flags:
        checked = LightRagSettings(**flags).api_key  # a copy would take anything
        settings = settings.model_copy(update={API_KEY: checked})
    return settings, frozenset(tool.name for tool in attestation.tools)
