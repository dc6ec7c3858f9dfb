"""`thalweg bench`: which method is faithful on this model and these texts, with intervals and tests."""

from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.shared import (
    Device,
    Dtype,
    Json,
    Limit,
    Model,
    Task,
    TextColumn,
    answer,
    check_writable,
    load_subject,
    names,
)
from thalweg.errors import InputError

Commas = "separated by commas"


def bench(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Texts, one per line; or .csv, .tsv, .jsonl or .parquet, with rationales or cue words if it has any."
        ),
    ] = None,
    model: Model = None,
    methods: Annotated[
        str,
        typer.Option(
            help=f"Methods and baselines, {Commas}, options as in alti:measure=l2, inverse_alti turned round; or all."
        ),
    ] = "attention_rollout,alti,gradient_norm,leave_one_out,random",
    metrics: Annotated[
        str, typer.Option(help=f"Metrics, {Commas}; sufficiency_mask has an operator of its own.")
    ] = "comprehensiveness,sufficiency,aopc",
    operator: Annotated[str, typer.Option(help="How tokens are taken away: delete, mask or pad.")] = "delete",
    inverses: Annotated[bool, typer.Option("--inverses", help="Add every method turned round.")] = False,
    other_seeds: Annotated[
        str, typer.Option(help=f"Other seeds of the model, {Commas}, for seed_robustness.", show_default=False)
    ] = "",
    max_tokens: Annotated[int | None, typer.Option(help="Longer texts are refused, as a row.", min=1)] = None,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Of the random ranking, shuffled weights and resampling.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the rows, where a run that was stopped goes on; named after what is asked if left out.",
            show_default=False,
        ),
    ] = None,
    text_column: TextColumn = "text",
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    available: Annotated[bool, typer.Option("--list", help="List metrics and baselines, and stop.")] = False,
    json: Json = None,
) -> None:
    """Run methods on examples, measure their rankings, and say which differences are more than chance.

    Rows go to a Parquet file in a folder as they come. A method that fails leaves its error in a row.
    """
    if available:
        _print_available()
        return
    if data is None:
        raise InputError("give --data with texts, or --list to see metrics and baselines")
    check_writable(json)
    from thalweg.faithfulness.data import read_examples

    examples = read_examples(data, text_column, limit)
    subject = load_subject(model, task, device, dtype)
    from thalweg.faithfulness.bench import bench as run

    found = run(
        subject,
        examples,
        names(methods),
        names(metrics),
        operator=operator,  # pyright: ignore[reportArgumentType]
        inverses=inverses,
        other_seeds=[load_subject(name, task, device, dtype) for name in names(other_seeds)],
        max_tokens=max_tokens,
        seed=seed,
        folder=out or "auto",
    )
    answer(found, json)
    if len(found.failures) == len(found.methods) and not any(row["scores"] for row in found.rows):
        first = next(iter(found.failures.values())).first
        raise InputError(f"no method has scores for any of {found.examples} examples; the first said: {first}")


def _print_available() -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from thalweg.faithfulness.registry import ARROWS, list_baselines, list_metrics

    def listed(kind: str) -> Table:
        return Table(Column(kind, no_wrap=True), "what it says", box=None, header_style="dim", padding=(0, 2, 0, 0))

    metrics, baselines = listed("metric"), listed("baseline")
    for one in {one.base: one for one in list_metrics().values()}.values():
        operators = [
            f"_{other.operator}" for other in list_metrics().values() if other.base == one.base and one.operator
        ]
        about = "; ".join([one.role, *filter(None, [", ".join(operators)]), one.paper])
        metrics.add_row(f"{one.base} {ARROWS[one.direction]}", Text.assemble(one.summary, (f"\n{about}", "dim")))
    for one in list_baselines().values():
        baselines.add_row(one.name, Text.assemble(one.summary, (f"\ncosts {one.cost}; {one.paper}", "dim")))
    console = Console()
    console.print(
        metrics, Text("\n↑ higher is better, ↓ lower; _delete, _mask, _pad: how tokens are taken away\n", "dim")
    )
    console.print(baselines)
