"""`thalweg methods`: the attribution methods and their parameters."""

from inspect import cleandoc
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from thalweg.cli.early import early
from thalweg.cli.output import print_out

MIN_TABLE_COLUMNS = 72  # of the terminal; methods are listed without a table below


def methods(
    name: Annotated[str | None, typer.Argument(help="Method to describe, with its parameters")] = None,
) -> None:
    """List the methods with their cost, guarantee and paper, or describe one of them."""
    wide = Console().width >= MIN_TABLE_COLUMNS
    print_out(early("thalweg.methods.registry", lambda registry: _described(registry, name, wide)))


def _described(registry: Any, name: str | None, wide: bool) -> RenderableType:
    """The list of methods, or one of them with its parameters."""
    if name is not None:
        method = registry.find_method(name)
        table = Table("option", "default", "expected", "meaning")
        for option in method.options:
            table.add_row(f"--{option.name.replace('_', '-')}", str(option.default), option.choices, option.meaning)
        text = f"{method.name}: {method.paper}\n\n{cleandoc(method.function.__doc__ or '')}\n"
        return Group(Text(text), table)
    known = registry.list_methods().values()
    if not wide:
        return Group(*(Text(f"{entry.name}\n  {entry.summary}\n  {entry.paper}") for entry in known))
    table = Table(Column("method", no_wrap=True), "what it measures", "cost", "guarantee", "paper")
    for entry in known:
        table.add_row(entry.name, entry.summary, entry.cost, entry.guarantee, entry.paper)
    return table
