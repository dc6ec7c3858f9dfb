"""The command `thalweg`. Every module in `commands/` is a subcommand."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pkgutil import iter_modules
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from thalweg.cli import commands
from thalweg.cli.output import allow_any_terminal, is_quiet, print_error, set_flags
from thalweg.errors import DamagedFileWarning, InputError, ModelError, ThalwegError, unknown_name
from thalweg.progress import hidden_progress
from thalweg.version import __version__

FLAGS = ("--debug", "--quiet", "-q")
UsageError: Any = typer.BadParameter.__base__
ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "OMP_WAIT_POLICY": "passive",  # threads that spin while they wait for small products cost seconds of CPU
}


class Root(TyperGroup):
    """The group of all commands; its flags may stand after a command too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        flags = [arg for arg in args[:end] if arg in FLAGS]
        rest = [arg for arg in args[:end] if arg not in FLAGS]
        return super().parse_args(ctx, [*flags, *rest, *args[end:]])


def build_app() -> typer.Typer:
    """Build the app with a command for each module: its `app`, or the function that has the module's name."""
    app = typer.Typer(
        cls=Root,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for module_info in iter_modules(commands.__path__):
        name = module_info.name
        module = import_module(f"{commands.__name__}.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            settings = getattr(module, "CONTEXT_SETTINGS", None)
            kind = getattr(module, "Command", None)
            app.command(name, cls=kind, context_settings=settings)(getattr(module, name))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only errors, and what is written to stdout with -")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Show where each token's information comes from inside a Transformer, and when to trust attention.

    Texts come from an argument, from stdin (-) or from --file. --debug and --quiet may follow a command too.
    """
    set_flags(debug, quiet)
    context.with_resource(hidden_progress() if is_quiet() else nullcontext())


class Interrupted(SystemExit):
    """Ends the command on a signal; unlike KeyboardInterrupt it reaches `main`, through typer."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(128 + number)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise `Interrupted` on Ctrl-C and SIGTERM."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _damage_shown() -> Iterator[None]:
    """Print warnings about damaged files like errors, on one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", DamagedFileWarning)
        show_other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if category is DamagedFileWarning:
                print_error("warning:", str(message))
            else:
                show_other(message, category, *place)

        warnings.showwarning = show
        yield


def main() -> None:
    """Run the command: exit code 2 for a user's mistake, 1 for a failure, a traceback with --debug."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    allow_any_terminal()
    set_flags(debug=False, quiet=False)
    try:
        with _interruptible(), _damage_shown():
            code = build_app()(prog_name="thalweg", standalone_mode=False)
        sys.exit(code)
    except Interrupted as stop:
        notes = getattr(stop, "__notes__", None)  # from a run that can be resumed
        print_error(*(("interrupted;", notes[0]) if notes else ("interrupted", f"(exit code {stop.code})")))
        raise
    except UsageError as error:
        _print_usage_error(error)
        sys.exit(2)
    except ThalwegError as error:
        print_error("error:", str(error))
        sys.exit(2 if isinstance(error, InputError | ModelError) else 1)
    except Exception as error:  # noqa: BLE001 - any failure is reported in one line
        print_error("failed:", f"{type(error).__name__}: {error} (run thalweg --debug … for the traceback)")
        sys.exit(1)


def _print_usage_error(error: Any) -> None:
    """Say on one line what is wrong with the command; without any arguments, show the help."""
    if not error.format_message():
        return
    command = error.ctx.command_path if error.ctx else "thalweg"
    message = error.format_message().rstrip(".").replace(". Did", "; did")
    if hasattr(error, "possibilities"):  # of an option that does not exist
        known = [name for param in error.ctx.command.get_params(error.ctx) for name in param.opts]
        message = str(unknown_name("option", error.option_name, [name for name in known if name.startswith("--")]))
    print_error("error:", f"{message[:1].lower()}{message[1:]} (see {command} --help)")
