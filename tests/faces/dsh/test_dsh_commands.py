"""`dsh-patch` and `dsh-bundle`: what they write, what they refuse, and that a profile takes it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from dsh_lightrag.cli.app import app
from dsh_lightrag.errors import PLUGIN_NAME
from dsh_lightrag.faces.dsh.bundle import MANIFEST, PACKAGE_NAME, PATCH
from dsh_lightrag.faces.dsh.row import BRIDGE
from dsh_lightrag.faces.mcp import command as mcp
from dsh_lightrag.flags import FLAGS
from faces.server import KEY

from .conftest import BOUND_S
from .scripted_model import Call, ScriptedModel

PROJECT = Path(__file__).parents[3]
# What `pnpm add file:DIR` does to a profile; the harness calls it by that name.
PNPM = """#!{python}
import json, pathlib, shutil, sys
assert sys.argv[1] == "add", sys.argv
source = pathlib.Path(sys.argv[2].removeprefix("file:"))
file = pathlib.Path("package.json")
manifest = json.loads(file.read_text())
name = json.loads((source / "package.json").read_text())["name"]
manifest.setdefault("dependencies", {{}})[name] = sys.argv[2]
file.write_text(json.dumps(manifest))
shutil.copytree(source, pathlib.Path("node_modules", name))
"""


@pytest.fixture
def run():
    """Run the command in this process; returns its status, stdout and stderr."""

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(one) for one in arguments])

    return invoke


def row_of(text):
    """Read the one row of a patch, a `!!js` value as its expression."""
    yaml = YAML(typ="safe")
    yaml.constructor.add_constructor("tag:yaml.org,2002:js", lambda _, node: ("js", node.value))
    (insert,) = yaml.load(text)
    (row,) = insert["insert"]
    return row


def arguments_of(row):
    """Return what the row gives to `dsh-lightrag mcp`, as that command reads it."""
    assert row["config"]["args"][:4] == ["-P", "-m", "dsh_lightrag", "mcp"]
    return mcp.parser().parse_args(row["config"]["args"][4:])


# --- the row ----------------------------------------------------------------------------------


def test_the_row_of_the_mcp_client_fails_loudly_and_waits_longer_than_a_call(run):
    row = row_of(run("dsh-patch", "--timeout-ms", "90000").stdout)
    assert (row["id"], row["name"]) == (PLUGIN_NAME, "@deepseek-ai/dsh-mcp-client")
    config = row["config"]
    assert config["failOnStartupError"] is True
    assert config["toolCallTimeoutMs"] == 100_000
    assert (config["serverName"], config["transport"]) == ("lightrag", "stdio")
    assert config["command"] == sys.executable
    assert Path(config["command"]).is_absolute()
    assert config["env"] == {"LIGHTRAG_API_KEY": ("js", "process.env.LIGHTRAG_API_KEY ?? ''")}


def test_the_row_of_the_bridge_names_its_file(run):
    row = row_of(run("dsh-patch", "--mode", "bare").stdout)
    assert row["name"] == str(BRIDGE)
    assert BRIDGE.is_absolute()
    assert BRIDGE.is_file()
    assert row["config"]["toolCallTimeoutMs"] == 70_000


def test_where_how_long_and_which_switches_always_stand_in_the_row(run):
    given = arguments_of(row_of(run("dsh-patch").stdout))
    assert given.endpoint == "http://127.0.0.1:9621"
    assert given.timeout_ms == 60_000
    assert (given.enable, sorted(given.disable)) == ([], ["evidence", "writes"])
    others = {".".join(flag.path) for flag in FLAGS} - {"endpoint", "timeout_ms"}
    assert {getattr(given, name) for name in others} == {None}


def test_every_setting_that_was_given_stands_in_the_row(run, monkeypatch, tmp_path):
    import certifi  # noqa: PLC0415 - the one file of authorities that is there

    values = {
        "--endpoint": "http://[::1]:7000",
        "--timeout-ms": "2000",
        "--query-mode": "naive",
        "--query-top-k": "7",
        "--query-max-answer-bytes": "2000",
        "--query-max-content-bytes": "2001",
        "--documents-max-listed": "8",
        "--output-max-text-bytes": "5000",
        "--writes-max-text-bytes": "3000",
        "--workspace": "-w",
        "--base-path": "/p",
    }
    (tmp_path / "ca.pem").write_bytes(Path(certifi.where()).read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIGHTRAG_USE_PROXY", "true")  # a variable counts as given
    words = [f"{name}={value}" for name, value in values.items()]
    switches = ("--no-enabled", "--enable", "writes", "--ca-file", "ca.pem")
    given = arguments_of(row_of(run("dsh-patch", *words, *switches).stdout))
    for flag in FLAGS:
        if flag.name in values:
            assert str(getattr(given, ".".join(flag.path))) == values[flag.name]
    assert (given.enable, given.disable) == (["writes"], ["evidence"])
    assert (given.enabled, given.use_proxy) == (False, True)
    assert given.ca_file == tmp_path / "ca.pem"  # the harness starts us elsewhere
    assert {flag.name for flag in FLAGS} - set(values) == {"--enabled", "--use-proxy", "--ca-file"}


def test_the_key_is_named_and_never_written(run, monkeypatch):
    monkeypatch.setenv("LIGHTRAG_API_KEY", KEY)
    monkeypatch.setenv("TEAM_KEY", KEY)
    result = run("dsh-patch", "--api-key-env", "TEAM_KEY")
    row = row_of(result.stdout)
    assert KEY not in result.output
    assert row["config"]["env"] == {"TEAM_KEY": ("js", "process.env.TEAM_KEY ?? ''")}
    assert arguments_of(row).api_key_env == "TEAM_KEY"


def test_the_key_need_not_be_there_when_the_row_is_written(run):
    assert run("dsh-patch", "--api-key-env", "NOT_SET_YET").exit_code == 0


@pytest.mark.parametrize("name", ["", "A B", "A'; process.exit()", "1ST", "A.b", "\u00c4"])
def test_a_name_that_is_no_variable_is_refused(run, name):
    result = run("dsh-patch", "--api-key-env", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--api-key-env" in result.stderr


def test_settings_that_cannot_work_are_refused(run):
    result = run("dsh-patch", "--endpoint", "http://127.0.0.1/path")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "endpoint" in result.stderr


@pytest.mark.parametrize("command", [["dsh-patch"], ["dsh-bundle", "new"]])
def test_without_mcp_the_extra_to_install_is_named(run, monkeypatch, tmp_path, command):
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.chdir(tmp_path)
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pip install 'dsh-lightrag[mcp]'" in result.stderr
    assert list(tmp_path.iterdir()) == []


# --- the bundle -------------------------------------------------------------------------------


def test_a_bundle_is_written_into_a_new_or_empty_folder_and_over_an_older_one(run, tmp_path):
    folder = tmp_path / "a" / "bundle"
    for flags in ([], ["--enable", "writes"]):
        result = run("dsh-bundle", folder, *flags)
        assert result.exit_code == 0
        assert f"file:{folder}" in result.stderr
    assert sorted(file.name for file in folder.iterdir()) == [BRIDGE.name, PATCH, MANIFEST]
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["dsh"] == {"bundle": {"patch": f"./{PATCH}"}}
    assert (folder / BRIDGE.name).read_bytes() == BRIDGE.read_bytes()
    row = row_of((folder / PATCH).read_text(encoding="utf-8"))
    assert row["name"] == "./bridge.mjs"
    assert arguments_of(row).enable == ["writes"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (MANIFEST, '{"name": "someone-elses"}'),
        (MANIFEST, f'["{PACKAGE_NAME}"]'),
        (MANIFEST, "no JSON"),
        (MANIFEST, "\ud800"),
        (PATCH, "- insert: []"),
        ("notes.txt", "mine"),
    ],
)
def test_a_folder_with_files_of_others_is_refused_and_left_alone(run, tmp_path, name, content):
    file = tmp_path / name
    file.write_text(content, encoding="utf-8", errors="surrogatepass")
    before = file.read_bytes()
    result = run("dsh-bundle", tmp_path)
    assert result.exit_code == 2
    assert "DIR: holds files that are no bundle of ours." in result.stderr
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_bytes() == before


def test_a_link_in_a_bundle_is_replaced_and_not_followed(run, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine", encoding="utf-8")
    folder = tmp_path / "bundle"
    run("dsh-bundle", folder)
    (folder / BRIDGE.name).unlink()
    (folder / BRIDGE.name).symlink_to(outside)
    assert run("dsh-bundle", folder).exit_code == 0
    assert outside.read_text(encoding="utf-8") == "mine"
    assert not (folder / BRIDGE.name).is_symlink()


def test_a_place_that_cannot_be_a_folder_is_told(run, tmp_path):
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        result = run("dsh-bundle", tmp_path / place)
        assert result.exit_code == 2
        assert "DIR: cannot be written" in result.stderr


def test_a_write_that_fails_leaves_no_half_of_a_file(run, tmp_path):
    folder = tmp_path / "bundle"
    run("dsh-bundle", folder)
    (folder / PATCH).unlink()
    (folder / PATCH).mkdir()  # nothing can be moved onto it
    result = run("dsh-bundle", folder)
    assert result.exit_code == 2
    assert sorted(file.name for file in folder.iterdir()) == [BRIDGE.name, PATCH, MANIFEST]


def test_a_profile_installs_the_bundle_and_has_the_tools(home, server, tmp_path):
    pnpm = tmp_path / "bin" / "pnpm"
    pnpm.parent.mkdir()
    pnpm.write_text(PNPM.format(python=sys.executable), encoding="utf-8")
    pnpm.chmod(0o755)
    home.ours("dsh-bundle", tmp_path / "bundle", "--endpoint", server.url)
    flags = ("plugin", "--profile", "headless", "add", f"file:{tmp_path / 'bundle'}")
    with home.dsh(*flags, PATH=f"{pnpm.parent}:/usr/bin:/bin") as adding:
        _, err = adding.communicate(timeout=BOUND_S)
    assert adding.returncode == 0, err
    with ScriptedModel([Call("dsh_lightrag_query", {"question": "Who found it?"})]) as model:
        home.run(model)
    assert "dsh_lightrag_query" in model.tools
    assert not model.said[0].is_error


# --- what the files of the project say --------------------------------------------------------


def test_the_tested_harness_is_the_one_that_these_tests_run(home):
    with home.dsh("--version") as asked:
        version, _ = asked.communicate(timeout=BOUND_S)
    known = json.loads((PROJECT / "compatibility.json").read_text(encoding="utf-8"))
    assert known["deepseekHarness"]["tested"] == [version.strip()]


def test_our_commands_in_the_documentation_can_be_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (PROJECT / "docs" / "harness.md").read_text(encoding="utf-8")
    commands = re.findall(r"^dsh-lightrag (.*?)(?: > .*)?$", text, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        result = run(*command.split())
        assert result.exit_code == 0, result.stderr
