"""The rooms of the package and their walls: who imports whom, held by walking the source."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import dsh_lightrag

SOURCE = Path(dsh_lightrag.__file__).parent
FILES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}

# Row one, lowest first: a module may import those above it here, and nothing else of ours.
FOUNDATION = (
    "version",
    "budget",
    "bounds",
    "errors",
    "vocabulary",
    "logs",
    "loop_thread",
    "origin",
    "guard",
    "connections",
    "listening",
    "schemas",
    "text",
    "yaml_file",
    "rows",
    "wire",
    "question",
    "settings",
    "flags",
)
ROW_ONE = set(FOUNDATION)
CORE = ROW_ONE | {"transport", "client", "dispatch"}
# What each room may import besides itself; a room that is not here fails until it is.
ROOMS = {
    **{room: set(FOUNDATION[:place]) for place, room in enumerate(FOUNDATION)},
    "transport": ROW_ONE,
    "client": ROW_ONE | {"transport"},
    "dispatch": ROW_ONE | {"transport", "client"},
    "tools": CORE,
    "plugin": CORE | {"tools", "harness"},
    "harness": CORE | {"tools"},
    "demo": {"errors", "vocabulary"},
    "engine": {"errors", "text"},
    "convert": {"errors", "text"},
    "server": ROW_ONE | {"engine", "convert"},
    "gateway": CORE | {"faces", "convert"},
    "blocking": CORE | {"tools"},
    "faces": CORE | {"tools", "harness", "blocking"},
    "prompt": CORE - {"dispatch"},
    "cli": CORE
    | {"tools", "plugin", "harness", "demo", "faces", "prompt", ""}
    | {"engine", "convert", "server", "gateway"},
    "__main__": {"cli", "faces"},
    "": CORE | {"tools", "blocking"},  # the package itself, `__init__.py`
}
HTTP_CLIENTS = {
    "aiohttp",
    "ftplib",
    "h11",
    "h2",
    "http.client",
    "httpcore",
    "httpx",
    "pycurl",
    "requests",
    "urllib.request",
    "urllib3",
    "websockets",
}
# Where HTTP may be spoken: to a server by tools, to models by ours, to the web by the gateway.
HTTP_DOORS = ("transport/", "server/models.py", "gateway/fetch.py")
HEAVY = ["httpx", "typer", "rich", "mcp", "ruamel", "ruamel.yaml", "yaml", "lightrag", "openai"]


def room_of(module):
    """Return the room of `dsh_lightrag.tools.query`: `tools`; of the package itself: nothing."""
    return module.partition(".")[2].partition(".")[0]


def room_of_file(name):
    return name.partition("/")[0].removesuffix(".py").replace("__init__", "")


def imports_of(path):
    """Return each absolute module that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.add(node.module)
            if node.module == "dsh_lightrag" or is_package(node.module):
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def is_package(module):
    return (SOURCE.parent / module.replace(".", "/") / "__init__.py").is_file()


def rooms_imported_by(path):
    rooms = set()
    for module in imports_of(path):
        top, _, rest = module.partition(".")
        if top == "dsh_lightrag":
            room = rest.partition(".")[0]
            is_room = (SOURCE / room).is_dir() or (SOURCE / f"{room}.py").is_file()
            rooms.add(room if is_room else "")
    # `from dsh_lightrag import wire` names the package, and means the room.
    return rooms - {""} or rooms


# --- walls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_room_imports_only_what_lies_below_it(name):
    room = room_of_file(name)
    assert room in ROOMS, f"a room without a rule: {room}"
    assert rooms_imported_by(FILES[name]) <= ROOMS[room] | {room}


def test_rooms_do_not_import_in_circles():
    below = {room: ROOMS[room] - {room, ""} for room in ROOMS if room not in ROW_ONE}
    while below:
        lowest = [room for room, others in below.items() if not others & set(below)]
        assert lowest, below
        for room in lowest:
            del below[room]


@pytest.mark.parametrize("name", FILES)
def test_http_is_spoken_through_one_door(name):
    spoken = {
        module
        for module in imports_of(FILES[name])
        if any(module == client or module.startswith(f"{client}.") for client in HTTP_CLIENTS)
    }
    assert spoken == set() or name.startswith(HTTP_DOORS)


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("ruamel", ("yaml_file.py",)),
        ("difflib", ("text.py",)),
        ("typer", ("cli/",)),
    ],
)
def test_a_library_that_one_place_is_enough_for_is_used_in_one_place(library, homes):
    users = [n for n in FILES if library in {m.partition(".")[0] for m in imports_of(FILES[n])}]
    assert users
    assert [name for name in users if not name.startswith(homes)] == []


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys; from dsh_lightrag import LightRagSettings, TOOLS; print(*sys.modules)"
    loaded = _run(code).split()
    assert "dsh_lightrag.tools.query" in loaded
    assert set(HEAVY) & set(loaded) == set()


def test_listing_tools_and_reading_settings_loads_no_http():
    code = (
        "import sys; from dsh_lightrag import LightRagSettings, toolbox;"
        "[t.digest for t in toolbox(LightRagSettings()).tools]; print(*sys.modules)"
    )
    assert "httpx" not in _run(code).split()


def test_the_version_is_read_without_importing_anything():
    assert imports_of(FILES["version.py"]) == set()


def _run(code):
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(SOURCE.parent)},
    ).stdout


# --- files ------------------------------------------------------------------------------------

TOOL_FILES = [name for name in FILES if name.startswith("tools/")]


@pytest.mark.parametrize("name", TOOL_FILES)
def test_a_tool_holds_no_try(name):
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Try | ast.TryStar)]


def test_every_tool_file_is_in_the_catalog():
    catalog = FILES["tools/catalog.py"].read_text(encoding="utf-8")
    with_tool = [name for name in TOOL_FILES if "TOOL = Tool(" in FILES[name].read_text("utf-8")]
    assert len(with_tool) == len(dsh_lightrag.TOOLS)
    for name in with_tool:
        assert f"{Path(name).stem}.TOOL," in catalog


@pytest.mark.parametrize("name", FILES)
def test_no_module_is_longer_than_500_lines(name):
    assert len(FILES[name].read_text(encoding="utf-8").splitlines()) <= 500


@pytest.mark.parametrize("name", FILES)
def test_every_exception_to_a_rule_carries_its_reason(name):
    marker = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma)")
    reasoned = re.compile(
        r"#\s*(?:noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*|type: ignore\[[a-z, -]+\]"
        r"|pragma: no cover) +(?:-|#) \w.{7,}"
    )
    with FILES[name].open("rb") as file:
        comments = [
            t.string for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT
        ]
    for comment in comments:
        assert not marker.search(comment) or reasoned.search(comment), comment


@pytest.mark.parametrize("name", FILES)
def test_every_module_says_its_job_and_broad_handlers_are_rare(name):
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    bare = [n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.type is None]
    assert bare == []


@pytest.mark.parametrize("name", FILES)
def test_text_files_are_opened_with_their_encoding(name):
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            keywords = {keyword.arg for keyword in node.keywords}
            if node.func.attr in ("read_text", "write_text"):
                assert "encoding" in keywords, f"{name}:{node.lineno}"


# --- the public face --------------------------------------------------------------------------


def test_the_public_names_are_complete_and_sorted():
    names = dsh_lightrag.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name.islower(), name))
    tree = ast.parse(FILES["__init__.py"].read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dsh_lightrag")
        for alias in node.names
    }
    assert set(names) == imported
    assert all(hasattr(dsh_lightrag, name) for name in names)


def test_every_module_can_be_imported_on_its_own():
    names = [
        module.name
        for module in pkgutil.walk_packages(dsh_lightrag.__path__, "dsh_lightrag.")
        if room_of(module.name) in CORE | {"tools"}
    ]
    assert len(names) > 20
    for name in names:
        assert importlib.import_module(name).__doc__


def test_the_architecture_page_has_a_line_for_every_room():
    page = (SOURCE.parent.parent / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([a-z_]+)/?`", page.partition("## One translation")[0]))
    assert set(ROOMS) - {"", "__main__"} <= told
