"""Reads profiles, presets and deployments: the harness's own files, lists of rows.

A row has `id`, `name`, `config` and `disabled`. Ours is named `dsh-lightrag` or
`@yadsh/dsh-lightrag` and holds the settings in `config`, directly or under `lightrag`. In a patch,
`- insert: [rows]` adds rows and an item with an `id` but no `name` overrides fields of the row of
that id, `config` as a whole. Rows of other plugins are read past, whatever they hold.

`toolFilter: {allow: [names], deny: [names]}` stands in one row of a preset, beside `config` or in
it. `lockdown: {toolPolicy: {allow: [names]}}` stands in a row likewise, or on top of a deployment
file that is no list. Both are the host's to enforce and never reach the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_snake

from dsh_lightrag.errors import PLUGIN_NAME, ConfigurationError
from dsh_lightrag.settings import API_KEY_VARIABLE, LightRagSettings
from dsh_lightrag.text import clean_line
from dsh_lightrag.yaml_file import MAX_FILE_BYTES, Block, Opaque, read_yaml, shown

if TYPE_CHECKING:
    from pathlib import Path

ROW_NAMES = (PLUGIN_NAME, f"@yadsh/{PLUGIN_NAME}")
GROUP_KEY = "lightrag"
FILTER_KEY = "toolFilter"
LOCKDOWN_KEY = "lockdown"
MAX_ROWS = 1000
_API_KEY_SPELLINGS = ("apiKey", "api_key")
# What settings call a fault that is in no single key.
_WHOLE = ("config", "settings")
_YAML_MEND = "Correct the file; `dsh --dump-config` shows how the harness reads it."


# --- our settings in a row --------------------------------------------------------------------


def settings_of(config: object) -> LightRagSettings:
    """Read what a host hands over as a row's config: the keys directly, or under `lightrag`.

    A row without a config has the defaults.

    Raises:
        ConfigurationError: naming the key that cannot work; never shows a secret.
    """
    return LightRagSettings.from_row(_unwrapped(config))


def _unwrapped(config: object) -> object:
    if not isinstance(config, Mapping) or GROUP_KEY not in config:
        return {} if config is None else config
    beside = next((key for key in config if key != GROUP_KEY), None)
    if beside is not None:
        raise ConfigurationError(
            shown(beside), f"stands beside {GROUP_KEY}.", f"Put all settings under {GROUP_KEY}."
        )
    return {} if config[GROUP_KEY] is None else config[GROUP_KEY]


def _plain(value: object, keys: tuple[str, ...] = ()) -> object:
    """Return settings without `!!js` values: an apiKey is set elsewhere, another is refused.

    Goes no deeper than settings do: aliases may make a small file very deep.
    """
    if isinstance(value, Opaque):
        raise ConfigurationError(
            ".".join(keys) or _WHOLE[0],
            f"is {value.tag}, which only the harness can evaluate.",
            f"Write the plain value; a key may also be left out and given as {API_KEY_VARIABLE}.",
        )
    if not isinstance(value, Block) or len(keys) > 1:
        return value
    return {
        key: _plain(inner, (*keys, key))
        for key, inner in value.items()
        if not (key in _API_KEY_SPELLINGS and isinstance(inner, Opaque))
    }


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and where it stands."""

    file: str
    fields: Block

    @property
    def is_ours(self) -> bool:
        """Whether it mounts this plugin."""
        return self.fields.get("name") in ROW_NAMES

    def is_disabled(self) -> bool:
        """Say whether the harness leaves it out.

        Raises:
            ConfigurationError: only the harness can tell.
        """
        disabled = self.fields.get("disabled")
        if disabled is not None and not isinstance(disabled, bool):
            raise self.refusal(("disabled",), "must be true or false.", "Write the plain value.")
        return bool(disabled)

    def has_settings(self) -> bool:
        """Say whether it says anything about the plugin itself."""
        config = self._config(FILTER_KEY)
        return config is not None and config != {}

    def settings(self, *taken_out: str) -> LightRagSettings:
        """Read our settings; keys `taken_out` are the host's, which reads them out of the config.

        Raises:
            ConfigurationError: naming file, line, row and key; never shows a secret.
        """
        config = self._config(*taken_out)
        prefix = ["config"]
        if isinstance(config, Block) and GROUP_KEY in config and len(config) == 1:
            prefix.append(GROUP_KEY)
        try:
            return LightRagSettings.from_row(_plain(_unwrapped(config)))
        except ConfigurationError as error:
            keys = prefix if error.key in _WHOLE else [*prefix, *error.key.split(".")]
            raise self.refusal(tuple(keys), error.problem, error.mend) from None

    def _config(self, *taken_out: str) -> object:
        config = self.fields.get("config")
        if not isinstance(config, Block) or not any(key in config for key in taken_out):
            return config
        rest = Block(config.line)
        for key, value in config.items():
            if key not in taken_out:
                rest.put(key, value, config.lines[key])
        return rest

    def carried(self, key: str) -> Iterator[tuple[tuple[str, ...], object]]:
        """Yield what the host reads under a key, beside `config` and in it, and its place."""
        if key in self.fields:
            yield (key,), self.fields[key]
        config = self.fields.get("config")
        if isinstance(config, Block) and key in config:
            yield ("config", key), config[key]

    def names_at(self, keys: tuple[str, ...], value: object) -> NameList:
        """Read a list of tool names.

        Raises:
            ConfigurationError: it is none.
        """
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.refusal(keys, "must be a plain list of tool names.", "Write [] for none.")
        return NameList(tuple(dict.fromkeys(value)), self.place(*keys))

    def block_at(self, keys: tuple[str, ...], value: object) -> Block:
        """Read a mapping.

        Raises:
            ConfigurationError: it is none.
        """
        if not isinstance(value, Block):
            raise self.refusal(keys, "must be a mapping.", "Write its keys below it.")
        return value

    def place(self, *keys: str) -> str:
        """Say where a key stands: file, line, row and key."""
        line, block = self.fields.line, self.fields
        for key in keys:
            found = next((name for name in (key, to_snake(key)) if name in block), None)
            if found is None:
                break
            line, inner = block.lines[found], block[found]
            block = inner if isinstance(inner, Block) else Block(line)
        title = next((self.fields[k] for k in ("id", "name") if self.fields.get(k)), None)
        parts = [f"{self.file}:{line}", f"row {shown(title)}" if title else "", ".".join(keys)]
        return ": ".join(part for part in parts if part)

    def refusal(self, keys: tuple[str, ...], problem: str, mend: str) -> ConfigurationError:
        """Make an error that names the place."""
        return ConfigurationError(self.place(*keys), problem, mend)


# --- files ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameList:
    """Tool names as a file lists them, each once, and where."""

    names: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """What a preset leaves to its agents; an absent list restricts nothing."""

    allow: NameList | None = None
    deny: NameList | None = None


@dataclass(frozen=True, slots=True)
class RowFile:
    """A profile, a preset or a deployment: its rows after its own patches."""

    path: str
    rows: tuple[Row, ...]

    def own_row(self) -> Row | None:
        """Return the enabled row that mounts this plugin, if any.

        Raises:
            ConfigurationError: there are two, which would register every name twice.
        """
        ours = [row for row in self.rows if row.is_ours and not row.is_disabled()]
        if len(ours) > 1:
            raise ours[1].refusal(
                (),
                f"mounts {PLUGIN_NAME} a second time, after line {ours[0].fields.line}.",
                "Keep one row.",
            )
        return ours[0] if ours else None

    def tool_filter(self) -> ToolFilter:
        """Return the toolFilter; one without lists when there is none.

        Raises:
            ConfigurationError: its shape is wrong, or a second one stands somewhere.
        """
        found = list(self._carried(FILTER_KEY))
        if not found:
            return ToolFilter()
        if len(found) > 1:
            row, keys, _ = found[1]
            raise row.refusal(keys, "is a second toolFilter.", "Keep one in a preset.")
        row, keys, value = found[0]
        lists = {
            key: row.names_at((*keys, key), names)
            for key, names in row.block_at(keys, value).items()
            if self._is_filter_list(row, keys, key)
        }
        return ToolFilter(**lists)

    def _is_filter_list(self, row: Row, keys: tuple[str, ...], key: str) -> bool:
        if key not in ToolFilter.__dataclass_fields__:
            raise row.refusal((*keys, key), "is no part of a toolFilter.", "Use allow or deny.")
        return True

    def policies(self) -> Iterator[NameList]:
        """Yield each `lockdown.toolPolicy.allow`.

        Raises:
            ConfigurationError: a toolPolicy has no such list.
        """
        for row, keys, value in self._carried(LOCKDOWN_KEY):
            lockdown = row.block_at(keys, value)
            if "toolPolicy" in lockdown:
                at = (*keys, "toolPolicy")
                policy = row.block_at(at, lockdown["toolPolicy"])
                yield row.names_at((*at, "allow"), policy.get("allow"))

    def _carried(self, key: str) -> Iterator[tuple[Row, tuple[str, ...], object]]:
        for row in self.rows:
            for keys, value in row.carried(key):
                if not row.is_disabled():
                    yield row, keys, value


def read_rows(path: Path) -> RowFile:
    """Read a profile or a preset.

    Raises:
        ConfigurationError: naming file, line, row and key: malformed YAML, an item that is no
            row, an id given twice, more than MAX_ROWS rows.
    """
    return _Assembly(path).file(_value_of(path))


def read_deployment(path: Path) -> RowFile:
    """Read a deployment: rows, or one mapping that holds `lockdown`.

    Raises:
        ConfigurationError: as read_rows.
    """
    value = _value_of(path)
    return _Assembly(path).file([value] if isinstance(value, Block) else value)


def _value_of(path: Path) -> object:
    """Read a file of the harness, which must be without a fault."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or "no such path"
        raise ConfigurationError(
            clean_line(str(path)), f"cannot be read: {reason}.", "Name a readable YAML file."
        ) from None
    document = read_yaml(data)
    for fault in document.faults:
        place = f"{clean_line(str(path))}:{fault.line}"
        raise ConfigurationError(place, fault.problem, fault.mend or _YAML_MEND)
    return document.value


class _Assembly:
    """Puts the items of one file together to rows, in order."""

    def __init__(self, path: Path) -> None:
        self._file = clean_line(str(path))
        self._rows: list[Row] = []
        self._by_id: dict[object, int] = {}

    def file(self, value: object) -> RowFile:
        for row in self._items(value, ""):
            if "insert" in row.fields:
                for inserted in self._items(row.fields["insert"], f"{row.place('insert')}: "):
                    self._add(inserted)
            elif "name" not in row.fields and row.fields.get("id") in self._by_id:
                at = self._by_id[row.fields["id"]]
                self._rows[at] = Row(self._file, row.fields.over(self._rows[at].fields))
            else:
                self._add(row)
        return RowFile(self._file, tuple(self._rows))

    def _items(self, value: object, where: str) -> Iterator[Row]:
        if not isinstance(value, list):
            raise ConfigurationError(
                where.rstrip(": ") or self._file,
                "must be a list of rows.",
                f"Write `- name: {PLUGIN_NAME}`, or [] for none.",
            )
        if len(value) > MAX_ROWS:
            raise ConfigurationError(self._file, f"holds more than {MAX_ROWS} rows.", "Split it.")
        for number, item in enumerate(value, start=1):
            if not isinstance(item, Block):
                raise ConfigurationError(
                    f"{where or self._file + ': '}item {number}",
                    "must be a mapping.",
                    f"Write `- name: {PLUGIN_NAME}` and the row's other keys below it.",
                )
            yield self._row(item)

    def _row(self, item: Block) -> Row:
        row = Row(self._file, item)
        # Checked first of all, since messages show them.
        for key, kinds in (("id", str | int | float), ("name", str)):
            if not isinstance(item.get(key), kinds | None):
                place = f"{self._file}:{item.lines[key]}: {key}"
                raise ConfigurationError(place, "must be text.", "Put it in quotes.")
        return row

    def _add(self, row: Row) -> None:
        if len(self._rows) == MAX_ROWS:
            raise ConfigurationError(self._file, f"holds more than {MAX_ROWS} rows.", "Split it.")
        row_id = row.fields.get("id")
        if row_id is not None:
            if row_id in self._by_id:
                line = self._rows[self._by_id[row_id]].fields.line
                raise row.refusal(("id",), f"stands on line {line} already.", "Rename one row.")
            self._by_id[row_id] = len(self._rows)
        self._rows.append(row)
