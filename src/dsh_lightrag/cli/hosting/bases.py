"""`bases`: the bases of a data folder, listed, made, dropped, copied out and in, and looked after.

Reading goes on beside a server that serves the folder. What writes takes the base's own lock, so
that it is refused while a server has the base open.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - Typer reads annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dsh_lightrag.cli.files import named_path
from dsh_lightrag.cli.hosting.flags import (
    DataFlag,
    Hosting,
    data_folder,
    embedded_keeper,
    with_hosting,
)
from dsh_lightrag.cli.hosting.ledger import ledger_path
from dsh_lightrag.cli.hosting.place import served_at
from dsh_lightrag.cli.terminal import complain, console_for, show, write_json
from dsh_lightrag.errors import ConfigurationError, needs_extra
from dsh_lightrag.server.workspaces import BASE_FILE, bases_folder, checked_name, inputs_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsh_lightrag.engine import Progress as IndexProgress
    from dsh_lightrag.server.embedded import EmbeddedKeeper
    from dsh_lightrag.server.inputs import Inputs

Name = Annotated[str, typer.Argument(metavar="NAME", help="The base's name.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def list_(data: DataFlag = None, *, as_json: Json = False) -> int:
    """List the bases of a data folder, with their documents and sizes."""
    folder, _ = data_folder(data)
    rows = [_row(folder, name) for name in _names(folder)]
    if as_json:
        write_json({"data": str(folder), "server": served_at(folder), "bases": rows})
        return 0
    if not rows:
        complain(f"There is no base in {folder}.")
        return 0
    table = Table("base", "documents", "bytes", "problem", box=None, pad_edge=False)
    for row in rows:
        documents = "?" if row["documents"] is None else str(row["documents"])
        table.add_row(*map(Text, (row["name"], documents, str(row["bytes"]), row["problem"])))
    show(table)
    return 0


def create(name: Name, data: DataFlag = None) -> int:
    """Make an empty base; one that is there stays as it is."""
    folder, _ = data_folder(data)
    made = _made(folder, name)
    complain(f"{name} was {'made' if made else 'there already'}.")
    return 0


def drop(
    name: Name,
    data: DataFlag = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Remove a base with all of its documents."""
    folder, _ = data_folder(data)
    _existing(folder, name)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("give --yes where nobody can be asked.")
        typer.confirm(f"Remove {name} and all of its documents?", abort=True, err=True)
    _dropped(folder, name)
    ledger_path(folder, "", name).unlink(missing_ok=True)
    complain(f"{name} was removed.")
    return 0


def export(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=named_path, help="A new file.")],
    data: DataFlag = None,
) -> int:
    """Copy a base as it is now to one file, also while it is being served."""
    folder, _ = data_folder(data)
    with _engine_faults():
        from dsh_lightrag.engine.outside import copy_base  # noqa: PLC0415 - loaded when used

        copy_base(_existing(folder, name), file)
    complain(f"{name} was copied to {file}.")
    return 0


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", parser=named_path, help="What `export` wrote.")
    ],
    name: Name,
    data: DataFlag = None,
) -> int:
    """Make a base out of an exported file; a damaged, foreign or newer file is refused."""
    folder, _ = data_folder(data)
    _checked_name(name)
    home = bases_folder(folder) / name
    if home.exists():
        raise ConfigurationError(name, "is there already.", "Drop it first, or take another name.")
    # Built beside its place and renamed, so that there is never half of a base.
    building = bases_folder(folder) / f".import-{secrets.token_hex(8)}"
    with _engine_faults():
        from dsh_lightrag.engine.outside import (  # noqa: PLC0415 - loaded when used
            copy_base,
            problems_of,
        )

        try:
            building.mkdir(parents=True)
            copy_base(file, building / BASE_FILE)
            if found := problems_of(building / BASE_FILE):
                raise ConfigurationError(str(file), f"is damaged: {found[0]}.", "Use another copy.")
            with _keeper(folder) as keeper:
                asyncio.run(_inputs(folder, keeper).settle(name))
            building.rename(home)
        except OSError as error:
            raise ConfigurationError(
                str(folder), f"cannot be written: {error.strerror}.", "Choose another folder."
            ) from None
        finally:
            shutil.rmtree(building, ignore_errors=True)
    complain(f"{file} is the base {name} now.")
    return 0


def reindex(hosting: Hosting, name: Name) -> int:
    """Make a base's vectors with another embedding model; broken off, it goes on when run again."""
    _existing(hosting.data, name)
    keeper = embedded_keeper(hosting)
    with _engine_faults(), _bar() as tell:
        progress = keeper.reindex(name, tell)
    complain(f"{name}: {progress.chunks} chunks, {progress.failed} failed.")
    return int(bool(progress.failed))


def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Bases; all by default.")
    ] = None,
    data: DataFlag = None,
) -> int:
    """Look for damage in bases, also while they are served; status 1 when there is any."""
    folder, _ = data_folder(data)
    damaged = False
    for name in names or _names(folder):
        found = _problems(_existing(folder, name))
        damaged |= bool(found)
        for problem in found or ["intact"]:
            show(Text(f"{name}: {problem}"))
    return int(damaged)


# --- a folder of bases ------------------------------------------------------------------------


def _names(folder: Path) -> list[str]:
    with _keeper(folder) as keeper:
        return list(asyncio.run(keeper.names()))


def _made(folder: Path, name: str) -> bool:
    _checked_name(name)
    with _keeper(folder) as keeper:
        asyncio.run(_inputs(folder, keeper).settle(name))
        return asyncio.run(keeper.create(name))


def _inputs(folder: Path, keeper: EmbeddedKeeper) -> Inputs:
    from dsh_lightrag.server.inputs import Inputs  # noqa: PLC0415 - loaded when used

    return Inputs(inputs_folder(folder), keeper.exists, max_file=0)


def _dropped(folder: Path, name: str) -> None:
    """Remove a base, which its server must have let go of, and its input folder with it."""
    with _keeper(folder) as keeper:

        async def drop_both() -> None:
            async with _inputs(folder, keeper).going(name):
                await keeper.drop(name)

        asyncio.run(drop_both())


@contextmanager
def _keeper(folder: Path) -> Iterator[EmbeddedKeeper]:
    """Yield a keeper without a model: it opens nothing."""
    with _engine_faults():
        from dsh_lightrag.server.embedded import (  # noqa: PLC0415 - loaded when used
            EmbeddedKeeper,
            EmbeddedSettings,
        )

        yield EmbeddedKeeper(EmbeddedSettings(folder, embedder="none"))


def _existing(folder: Path, name: str) -> Path:
    """Return the file of a base.

    Raises:
        ConfigurationError: there is no such base.
    """
    home = bases_folder(folder) / _checked_name(name)
    if not home.is_dir():
        raise ConfigurationError(name, f"is no base of {folder}.", "`bases list` names them.")
    return home / BASE_FILE


def _checked_name(name: str) -> str:
    with _engine_faults():
        return checked_name(name)


def _row(folder: Path, name: str) -> dict[str, Any]:
    path = bases_folder(folder) / name / BASE_FILE
    row: dict[str, Any] = {"name": name, "documents": 0, "bytes": 0, "problem": ""}
    if path.exists():  # a base that was never opened is a folder alone
        row["bytes"] = sum(map(_size, (path, path.with_name(f"{BASE_FILE}-wal"))))
        try:
            with _engine_faults():
                from dsh_lightrag.engine.outside import documents_in  # noqa: PLC0415 - as above

                row["documents"] = documents_in(path)
        except ConfigurationError as error:
            row |= {"documents": None, "problem": error.problem}
    return row


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _problems(path: Path) -> list[str]:
    if not path.exists():
        return []
    try:
        with _engine_faults():
            from dsh_lightrag.engine.outside import problems_of  # noqa: PLC0415 - as above

            return problems_of(path)
    except ConfigurationError as error:
        return [error.problem]


@contextmanager
def _engine_faults() -> Iterator[None]:
    """Tell what the engine and its keeper refuse as the command line tells of wrong usage."""
    with needs_extra("server", "A data folder"):
        from dsh_lightrag.engine import EngineError  # noqa: PLC0415 - loaded when used
        from dsh_lightrag.server.backend import BackendError  # noqa: PLC0415 - as above
        from dsh_lightrag.server.refusal import RefusalError  # noqa: PLC0415 - as above
    try:
        yield
    except (EngineError, BackendError) as error:
        raise ConfigurationError("base", error.problem, error.mend) from None
    except RefusalError as error:
        raise ConfigurationError("base", error.detail, "Try again.") from None


@contextmanager
def _bar() -> Iterator[Callable[[IndexProgress], None]]:
    """Yield what moves a bar on a terminal, and prints a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (TextColumn("vectors"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console_for(stderr=True), redirect_stdout=False) as progress:
        task = progress.add_task("vectors", total=None)

        def tell(done: IndexProgress) -> None:
            progress.update(task, total=done.chunks, completed=done.chunks - done.pending)

        yield tell


def _lines() -> Callable[[IndexProgress], None]:
    told = -1

    def tell(done: IndexProgress) -> None:
        nonlocal told
        tenths = 10 * (done.chunks - done.pending) // max(1, done.chunks)
        if tenths > told:
            told = tenths
            complain(f"{done.chunks - done.pending} of {done.chunks} chunks")

    return tell


BASES_COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_,
    "create": create,
    "drop": drop,
    "export": export,
    "import": import_,
    "reindex": with_hosting(reindex),
    "verify": verify,
}
