"""Attests which tools the agents of a preset may call, so that a deployment can pin them.

The tools are what the profile's row registers, the preset's row left on, its `toolFilter` admits
and every `lockdown.toolPolicy.allow` names. An allow-list that promises a tool which is not there
is refused: an agent must not start with less than its preset says. Nothing is contacted, nothing
is run, and no variable takes part (an apiKey is never looked at).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from dsh_lightrag.errors import PLUGIN_NAME
from dsh_lightrag.harness.profiles import (
    FILTER_KEY,
    NameList,
    RowFile,
    read_deployment,
    read_rows,
)
from dsh_lightrag.text import nearest
from dsh_lightrag.tools.catalog import TOOLS
from dsh_lightrag.yaml_file import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsh_lightrag.dispatch import AnyTool
    from dsh_lightrag.settings import LightRagSettings

# Our tools by their own names, or as the harness's MCP client renames them.
_OURS = re.compile(r"(?:mcp__[A-Za-z0-9_-]{1,32}?__)?(dsh_lightrag_.*)", re.DOTALL)
_CATALOG = {tool.name: tool for tool in TOOLS}


class AttestedToolFields(TypedDict):
    """A tool that agents may call."""

    name: str
    access: str
    digest: str


class RefusalFields(TypedDict):
    """Why the attestation is refused."""

    name: str
    reason: str
    hint: str


class AttestationFields(TypedDict):
    """The whole, as machines read it."""

    ok: bool
    profile: str
    preset: str
    tools: list[AttestedToolFields]
    refused: list[RefusalFields]


@dataclass(frozen=True, slots=True)
class AttestedTool:
    """A tool that agents may call; the digest changes with anything they are told of it."""

    name: str
    access: str
    digest: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A name that the files promise or forbid in vain, why, and what mends it."""

    name: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class Attestation:
    """What agents of a preset may call, in catalog order; worth nothing unless `ok`."""

    profile: str
    preset: str
    tools: tuple[AttestedTool, ...]
    refused: tuple[Refusal, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not self.refused

    def to_json(self) -> AttestationFields:
        """Return it as a JSON-ready mapping."""
        return {
            "ok": self.ok,
            "profile": self.profile,
            "preset": self.preset,
            "tools": [
                {"name": tool.name, "access": tool.access, "digest": tool.digest}
                for tool in self.tools
            ],
            "refused": [
                {"name": refusal.name, "reason": refusal.reason, "hint": refusal.hint}
                for refusal in self.refused
            ],
        }


def attest(profile: Path, preset: Path, deployment: Path | None = None) -> Attestation:
    """Attest a preset against a profile and, where its policy stands apart, a deployment.

    A preset's row may carry settings of its own; they narrow what the profile's row registers
    and never widen it.

    Raises:
        ConfigurationError: a file that cannot be read as one, or a row that cannot work.
    """
    files = [read_rows(profile), read_rows(preset)]
    policies = [*files, read_deployment(deployment)] if deployment is not None else files
    rows = _Rows.of(*files)
    tool_filter = files[1].tool_filter()
    allowed = [names for file in policies for names in file.policies()]
    if tool_filter.allow is not None:
        allowed.insert(0, tool_filter.allow)
    denied = [] if tool_filter.deny is None else [tool_filter.deny]
    visible = [
        AttestedTool(tool.name, tool.access.value, tool.digest)
        for tool in TOOLS
        if rows.registers(tool)
        and all(_names(names, tool) for names in allowed)
        and not any(_names(names, tool) for names in denied)
    ]
    refused = [
        *rows.missing(),
        *(refusal for names in allowed for refusal in _promised_in_vain(names, rows)),
        *(refusal for names in denied for refusal in _unknown(names)),
    ]
    return Attestation(files[0].path, files[1].path, tuple(visible), tuple(dict.fromkeys(refused)))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Our rows of a profile and a preset, read as far as they go."""

    files: tuple[RowFile, RowFile]
    # By the file's role; None where the row is missing. A preset's row without settings is absent.
    settings: dict[str, LightRagSettings | None]

    @classmethod
    def of(cls, profile: RowFile, preset: RowFile) -> _Rows:
        """Read both rows; raises ConfigurationError."""
        base, own = profile.own_row(), preset.own_row()
        settings = {"profile": None if base is None else base.settings()}
        if own is None or own.has_settings():
            settings["preset"] = None if own is None else own.settings(FILTER_KEY)
        return cls((profile, preset), settings)

    def missing(self) -> Iterator[Refusal]:
        """Yield a refusal for each file without an enabled row of ours."""
        for file, role in zip(self.files, ("profile", "preset"), strict=True):
            if role in self.settings and self.settings[role] is None:
                yield Refusal(
                    PLUGIN_NAME,
                    f"The {role} {file.path} has no enabled row of that name.",
                    f"Add `- name: {PLUGIN_NAME}` to it, or name the {role} that has one.",
                )

    def registers(self, tool: AnyTool) -> bool:
        """Say whether every row has it switched on."""
        return all(
            settings is not None and tool.switch.missing(settings) is None
            for settings in self.settings.values()
        )

    def off(self, tool: AnyTool) -> Iterator[tuple[str, str]]:
        """Yield each role whose row leaves it out, and the switch that would register it."""
        for role, settings in self.settings.items():
            if settings is not None and (key := tool.switch.missing(settings)):
                yield role, key


def _raw(name: str) -> str | None:
    """Return a name as our catalog has it, or None for another plugin's tool."""
    match = _OURS.fullmatch(name)
    return match[1] if match else None


def _names(names: NameList, tool: AnyTool) -> bool:
    return any(_raw(name) == tool.name for name in names.names)


def _unknown(names: NameList) -> Iterator[Refusal]:
    """Yield a refusal for each name that looks like ours and is none."""
    for name in names.names:
        raw = _raw(name)
        if raw is None or raw in _CATALOG:
            continue
        near = nearest(raw, _CATALOG)
        yield Refusal(
            shown(name),
            f"{names.place} names it, and no such tool exists.",
            f"Did you mean {near}?" if near else f"Known: {', '.join(_CATALOG)}.",
        )


def _promised_in_vain(names: NameList, rows: _Rows) -> Iterator[Refusal]:
    """Yield a refusal for each allowed name that is unknown or switched off."""
    yield from _unknown(names)
    for name in names.names:
        tool = _CATALOG.get(_raw(name) or "")
        for role, switch in rows.off(tool) if tool is not None else ():
            yield Refusal(
                shown(name),
                f"{names.place} allows it, but it is not registered: {switch} is not true in "
                f"the {role}.",
                f"Set {switch}: true in the {role}'s row, or take the name out of the list.",
            )
