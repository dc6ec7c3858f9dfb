"""The command `thalweg`. Every file in `commands/` is a subcommand."""

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

import typer

from thalweg.cli import commands
from thalweg.cli.output import print_error, set_debug
from thalweg.errors import InputError, ModelError, ThalwegError
from thalweg.version import __version__

app = typer.Typer(
    help="Show where each token's information comes from inside a Transformer, and when to trust attention.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    set_debug(debug)


def _add_commands() -> None:
    """Add a function that has its module's name as a command, or a module's `app` as a group of commands."""
    for module_info in iter_modules(commands.__path__):
        module = import_module(f"{commands.__name__}.{module_info.name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=module_info.name)
        else:
            settings = getattr(module, "CONTEXT_SETTINGS", None)
            app.command(module_info.name, context_settings=settings)(getattr(module, module_info.name))


_add_commands()


def main() -> None:
    """Run the command: exit code 2 for a user's mistake, 1 for a failure, a traceback with --debug."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except ThalwegError as error:
        print_error("error:", str(error))
        sys.exit(2 if isinstance(error, InputError | ModelError) else 1)
    except Exception as error:  # noqa: BLE001 - whatever it is, a command answers in one line
        print_error("failed:", f"{type(error).__name__}: {error} (run thalweg --debug … for the traceback)")
        sys.exit(1)
