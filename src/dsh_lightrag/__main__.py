"""The command `dsh-lightrag`, also as `python -m dsh_lightrag`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from dsh_lightrag.cli import run  # noqa: PLC0415 - Typer and Rich are loaded only when used

    run()


if __name__ == "__main__":
    main()
