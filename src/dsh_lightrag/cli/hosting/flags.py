"""What a server is built from, as flags and as one value: the composition root of `server/`."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dsh_lightrag.cli.files import named_path
from dsh_lightrag.errors import ConfigurationError, needs_extra
from dsh_lightrag.flags import secret_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_lightrag.server.backend import Keeper
    from dsh_lightrag.server.embedded import EmbeddedKeeper
    from dsh_lightrag.server.endpoint import Endpoint
    from dsh_lightrag.server.settings import ServerSettings

DATA_VARIABLE = "LIGHTRAG_DATA"
_LOCAL_EMBEDDERS = ("minilm", "static", "none")
_FOLDER = "dsh-lightrag"

DataFlag = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        parser=named_path,
        help=f"The data folder. {DATA_VARIABLE}, else the user's own data folder.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Hosting:
    """What a server of ours is built from.

    Attributes:
        data: the folder that holds every base.
        named: whether somebody named the folder, or it is the default.
        embedder: `minilm`, `static`, `none`, or an endpoint's URL.
        backend: our own engine, or LightRAG's core.
    """

    data: Path
    named: bool
    embedder: str = "minilm"
    embedder_model: str | None = None
    embedder_key_env: str | None = None
    chat_url: str | None = None
    chat_model: str | None = None
    chat_key_env: str | None = None
    backend: Literal["embedded", "lightrag"] = "embedded"
    database_url_env: str | None = None


# The flags of `Hosting`, by its fields.
_FLAGS: dict[str, Any] = {
    "embedder": Annotated[
        str,
        typer.Option(
            metavar="NAME|URL",
            help="minilm (offline), static (offline, fast), none, or an OpenAI-compatible URL.",
        ),
    ],
    "embedder_model": Annotated[
        str | None, typer.Option(help="The embedding model's name at that URL.")
    ],
    "embedder_key_env": Annotated[
        str | None, typer.Option(metavar="NAME", help="Variable that holds that URL's key.")
    ],
    "chat_url": Annotated[
        str | None,
        typer.Option(metavar="URL", help="OpenAI-compatible chat endpoint; without, no chat."),
    ],
    "chat_model": Annotated[str | None, typer.Option(help="The chat model's name there.")],
    "chat_key_env": Annotated[
        str | None, typer.Option(metavar="NAME", help="Variable that holds the chat URL's key.")
    ],
    "backend": Annotated[
        Literal["embedded", "lightrag"],
        typer.Option(help="Our own engine, or LightRAG's core (extra postgres)."),
    ],
    "database_url_env": Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Variable that holds a PostgreSQL's URL."),
    ],
}


def with_hosting(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the flags of a server; its parameter `hosting` is what they say."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for name, one in signature.parameters.items() if name != "hosting"]
    defaults = {name: Hosting.__dataclass_fields__[name].default for name in _FLAGS}

    @functools.wraps(command)
    def wrapped(*first: Any, **given: Any) -> int:
        values = {name: given.pop(name) for name in _FLAGS}
        data = given.pop("data")
        return command(*first, hosting=hosting_of(data, **values), **given)

    by_name = inspect.Parameter.KEYWORD_ONLY
    flags = [inspect.Parameter("data", by_name, default=None, annotation=DataFlag)]
    flags += [
        inspect.Parameter(name, by_name, default=defaults[name], annotation=annotation)
        for name, annotation in _FLAGS.items()
    ]
    parameters = [*own, *flags]
    # Typer reads the parameters from here.
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # functions may have one
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def hosting_of(data: Path | None, **values: Any) -> Hosting:
    """Return what flags say; the data folder may be named by a variable or be the default."""
    return Hosting(*data_folder(data), **values)


def data_folder(data: Path | None) -> tuple[Path, bool]:
    """Return the data folder, and whether somebody named it.

    Raises:
        ConfigurationError: it is no folder, or there is no home to find it in.
    """
    variable = os.environ.get(DATA_VARIABLE, "").strip()
    named = data or (Path(variable) if variable else None)
    try:
        folder = named.expanduser().absolute() if named else _default_folder()
    except RuntimeError:
        raise ConfigurationError(
            "--data", "cannot be found without a home.", "Name a folder by its whole path."
        ) from None
    if os.path.exists(folder) and not os.path.isdir(folder):  # noqa: PTH110, PTH112 - these never raise
        raise ConfigurationError("--data", "is no folder.", "Name a folder.")
    return folder, bool(named)


def _default_folder() -> Path:
    """Return the folder for what a person's programs keep, as the platform has it."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / _FOLDER / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _FOLDER / "data"
    share = os.environ.get("XDG_DATA_HOME", "")
    # The base directory specification: a relative path in the variable is to be ignored.
    return (Path(share) if share.startswith("/") else Path.home() / ".local" / "share") / _FOLDER


def keeper_of(hosting: Hosting) -> Keeper:
    """Build what opens the bases.

    Raises:
        ConfigurationError: flags that do not go together, or an endpoint that cannot be.
        MissingExtraError: what the backend needs is not installed.
    """
    return _KEEPERS[hosting.backend](hosting)


def embedded_keeper(hosting: Hosting) -> EmbeddedKeeper:
    """Build the keeper of our own engine's bases; raises as `keeper_of`."""
    with needs_extra("server", "Serving"):
        import fastapi  # noqa: F401, PLC0415 - the rest is loaded by those who serve

        from dsh_lightrag.server.embedded import (  # noqa: PLC0415 - as above
            EmbeddedKeeper,
            EmbeddedSettings,
        )
    if hosting.database_url_env:
        raise ConfigurationError(
            "--database-url-env", "belongs to --backend lightrag.", "Leave it out."
        )
    embedder = _embedder(hosting)
    return EmbeddedKeeper(EmbeddedSettings(hosting.data, embedder=embedder, chat=_chat(hosting)))


def _lightrag_keeper(hosting: Hosting) -> Keeper:
    with needs_extra("server", "Serving"):
        import fastapi  # noqa: F401, PLC0415 - as above

        from dsh_lightrag.server.core import CoreSettings, keeper_of  # noqa: PLC0415 - as above
    chat, embedder = _chat(hosting), _embedder(hosting)
    if chat is None:
        raise ConfigurationError(
            "--chat-url", "is missing.", "LightRAG's core indexes nothing without a chat model."
        )
    if embedder == "none":
        raise ConfigurationError("--embedder", "none is not enough for LightRAG.", "Name a model.")
    variable = hosting.database_url_env
    database = secret_of("--database-url-env", variable, os.environ) if variable else ""
    return keeper_of(CoreSettings(hosting.data, chat, embedder, database_url=database))


_KEEPERS: dict[str, Callable[[Hosting], Keeper]] = {
    "embedded": embedded_keeper,
    "lightrag": _lightrag_keeper,
}


def _embedder(hosting: Hosting) -> Any:
    """Return a model's name, or its endpoint."""
    if hosting.embedder in _LOCAL_EMBEDDERS:
        return hosting.embedder
    return _endpoint("embedder", hosting.embedder, hosting.embedder_model, hosting.embedder_key_env)


def _chat(hosting: Hosting) -> Endpoint | None:
    if hosting.chat_url is None:
        if hosting.chat_model or hosting.chat_key_env:
            raise ConfigurationError("--chat-url", "is missing.", "Give it, or no chat flag.")
        return None
    return _endpoint("chat", hosting.chat_url, hosting.chat_model, hosting.chat_key_env)


def _endpoint(kind: str, url: str, model: str | None, key_env: str | None) -> Endpoint:
    """Return a model's endpoint, its faults told by the flag that brought them."""
    from dsh_lightrag.server.endpoint import Endpoint  # noqa: PLC0415 - as in `keeper_of`

    url_flag = "--embedder" if kind == "embedder" else f"--{kind}-url"
    if "://" not in url:
        raise ConfigurationError(url_flag, "is no URL and no model of ours.", "Write https://….")
    if not model:
        raise ConfigurationError(f"--{kind}-model", "is missing.", "Name the model at that URL.")
    try:
        return Endpoint(url, model, key_env or "")
    except ConfigurationError as error:
        flag = url_flag if error.key == "url" else f"--{kind}-key-env"
        problem = error.problem if error.key == "url" else f"The variable {error.key} is not set."
        raise ConfigurationError(flag, problem, error.mend) from None


def server_settings(hosting: Hosting, **more: Any) -> ServerSettings:
    """Return the settings of a server over a data folder."""
    with needs_extra("server", "Serving"):
        from dsh_lightrag.server.settings import ServerSettings  # noqa: PLC0415 - as in `keeper_of`

    return ServerSettings(data=hosting.data, **more)
