"""`thalweg bench`: compare the faithfulness of methods on a model and texts, with intervals and tests."""

from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.options import Device, Dtype, Json, Limit, Model, Task, TextColumn, set_options, split_names
from thalweg.cli.output import check_writable, load_subject, show
from thalweg.errors import InputError


def bench(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Texts, one per line, or a .csv, .tsv, .jsonl or .parquet file, with rationales or cue words if any"
        ),
    ] = None,
    model: Model = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods and baselines, comma-separated, or all; alti:measure=l2 sets an option, inverse_alti "
            "reverses a ranking"
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Metrics, comma-separated; a suffix overrides --operator, e.g. sufficiency_mask")
    ] = None,
    operator: Annotated[str, typer.Option(help="How tokens are removed: delete, mask or pad")] = "delete",
    inverses: Annotated[bool, typer.Option("--inverses", help="Add the reverse of every method")] = False,
    other_seeds: Annotated[
        str | None, typer.Option(help="Models trained with other seeds, comma-separated, for seed_robustness")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Record longer texts as errors", min=1)] = None,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of the random ranking, shuffled weights and resampling")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the rows; an interrupted run resumes there (default: named after the configuration)",
            show_default=False,
        ),
    ] = None,
    text_column: TextColumn = "text",
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    available: Annotated[bool, typer.Option("--list", help="List metrics and baselines, and exit")] = False,
    json: Json = None,
) -> None:
    """Run methods on examples, score their rankings, and test which differences are more than chance.

    Rows are written to Parquet as they are computed; interrupted runs resume. A method that fails leaves its error in
    its row.
    """
    if available:
        _print_available()
        return
    if data is None:
        raise InputError("expected --data with texts, or --list for the metrics and baselines")
    check_writable(json)
    from thalweg.faithfulness.examples import read_examples

    examples = read_examples(data, text_column, limit)
    subject = load_subject(model, task, device, dtype)
    from thalweg.faithfulness.bench import bench as run

    result = run(
        subject,
        examples,
        **set_options(methods=split_names(methods), metrics=split_names(metrics)),
        operator=operator,  # pyright: ignore[reportArgumentType]
        inverses=inverses,
        other_seeds=[load_subject(name, task, device, dtype) for name in split_names(other_seeds) or []],
        max_tokens=max_tokens,
        seed=seed,
        folder=out or "auto",
    )
    show(result, json)
    if len(result.failures) == len(result.methods) and not any(row["scores"] for row in result.rows):
        first = next(iter(result.failures.values())).first_error
        raise InputError(f"every method failed on all {result.examples} examples; first error: {first}")


def _print_available() -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from thalweg.faithfulness.registry import ARROWS, list_baselines, list_metrics

    def table_of(kind: str) -> Table:
        return Table(Column(kind, no_wrap=True), "what it measures", box=None, header_style="dim", padding=(0, 2, 0, 0))

    metrics, baselines = table_of("metric"), table_of("baseline")
    for metric in {metric.base: metric for metric in list_metrics().values()}.values():
        variants = [other for other in list_metrics().values() if other.base == metric.base and metric.operator]
        operators = ", ".join(f"_{variant.operator}" for variant in variants)
        about = "; ".join(filter(None, [metric.role, operators, metric.paper]))
        name = f"{metric.base} {ARROWS[metric.direction]}"
        metrics.add_row(name, Text.assemble(metric.summary, (f"\n{about}", "dim")))
    for baseline in list_baselines().values():
        about = f"costs {baseline.cost}; {baseline.paper}"
        baselines.add_row(baseline.name, Text.assemble(baseline.summary, (f"\n{about}", "dim")))
    console = Console()
    console.print(metrics, Text("\n↑ higher is better, ↓ lower; _delete, _mask, _pad: how tokens are removed\n", "dim"))
    console.print(baselines)
