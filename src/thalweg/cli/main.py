"""The command `thalweg`. Every module in `commands/` is a subcommand."""

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


def build_app() -> typer.Typer:
    """Build the app with a command for each module: its `app`, or the function that has the module's name."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
    app.callback()(root)
    for module_info in iter_modules(commands.__path__):
        name = module_info.name
        module = import_module(f"{commands.__name__}.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            settings = getattr(module, "CONTEXT_SETTINGS", None)
            app.command(name, context_settings=settings)(getattr(module, name))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Show where each token's information comes from inside a Transformer, and when to trust attention."""
    set_debug(debug)


def main() -> None:
    """Run the command: exit code 2 for a user's mistake, 1 for a failure, a traceback with --debug."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        build_app()()
    except ThalwegError as error:
        print_error("error:", str(error))
        sys.exit(2 if isinstance(error, InputError | ModelError) else 1)
    except Exception as error:  # noqa: BLE001 - any failure is reported in one line
        print_error("failed:", f"{type(error).__name__}: {error} (run thalweg --debug … for the traceback)")
        sys.exit(1)
