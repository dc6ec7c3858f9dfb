"""`thalweg methods`: the attribution methods and their parameters."""

from inspect import cleandoc
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

MIN_TABLE_COLUMNS = 72  # of the terminal; methods are listed without a table below


def methods(
    name: Annotated[str | None, typer.Argument(help="Method to describe, with its parameters")] = None,
) -> None:
    """List the methods with their cost, guarantee and paper, or describe one of them."""
    from thalweg.methods.registry import find_method, list_methods

    console = Console()
    if name is None:
        table = Table(Column("method", no_wrap=True), "what it measures", "cost", "guarantee", "paper")
        for entry in list_methods().values():
            table.add_row(entry.name, entry.summary, entry.cost, entry.guarantee, entry.paper)
        if console.width >= MIN_TABLE_COLUMNS:
            console.print(table)
        else:
            for entry in list_methods().values():
                console.print(f"{entry.name}\n  {entry.summary}\n  {entry.paper}", markup=False, highlight=False)
        return
    chosen = find_method(name)
    console.print(f"{chosen.name}: {chosen.paper}\n\n{cleandoc(chosen.function.__doc__ or '')}\n", markup=False)
    table = Table("option", "default", "expected", "meaning")
    for option in chosen.options:
        table.add_row(f"--{option.name.replace('_', '-')}", str(option.default), option.choices, option.meaning)
    console.print(table)
