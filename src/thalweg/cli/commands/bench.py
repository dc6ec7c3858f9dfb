"""`thalweg bench`: compare the faithfulness of methods on a model and texts, with intervals and tests."""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from thalweg.cli.early import check_folder, check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Json,
    Limit,
    MaxTokens,
    Model,
    Out,
    Task,
    TextColumn,
    Truncate,
    set_options,
    split_names,
)
from thalweg.cli.output import check_outputs, load_subject, print_out, show
from thalweg.cli.texts import spooled
from thalweg.errors import InputError


def bench(
    file: File = None,
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
    max_tokens: MaxTokens = None,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of the random ranking, shuffled weights and resampling")] = 0,
    out: Out = None,
    text_column: TextColumn = "text",
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    truncate: Truncate = False,
    available: Annotated[bool, typer.Option("--list", help="List metrics and baselines, and exit")] = False,
    json: Json = None,
) -> None:
    """Run methods on examples, score their rankings, and test which differences are more than chance.

    Rows are written to Parquet as they are computed; interrupted runs resume. Without --out the folder is named after
    the configuration. A method that fails leaves its error in its row.
    """
    if available:
        print_out(early("thalweg.faithfulness.registry", _listed))
        return
    if file is None:
        raise InputError("expected --file with texts, or --list for the metrics and baselines")
    outputs = check_outputs(file, run_folder=out, json=json)
    chosen = set_options(methods=split_names(methods), metrics=split_names(metrics))
    early("thalweg.faithfulness.bench", lambda module: module.check_names(**chosen, operator=operator))
    check_folder(out, "thalweg.faithfulness.row_store", "BENCH_RUN")
    from thalweg.faithfulness.examples import read_examples

    with spooled(file) as table:
        examples = read_examples(table, text_column, limit)
    seeds = split_names(other_seeds) or []
    for name in (model, *seeds):
        check_model(name, task)
    subject = load_subject(model, task, device, dtype, truncate)
    from thalweg.faithfulness.bench import bench as run

    result = run(
        subject,
        examples,
        **chosen,
        operator=operator,  # pyright: ignore[reportArgumentType]
        inverses=inverses,
        other_seeds=[load_subject(name, task, device, dtype, truncate) for name in seeds],
        max_tokens=max_tokens,
        seed=seed,
        folder=out or "auto",
    )
    show(result, outputs)
    if len(result.failures) == len(result.methods) and not any(row["scores"] for row in result.rows):
        first = next(iter(result.failures.values())).first_error
        raise InputError(f"every method failed on all {result.examples} examples; first error: {first}")


def _listed(registry: Any) -> Group:
    """Tables of the metrics and baselines."""

    def table_of(kind: str) -> Table:
        return Table(Column(kind, no_wrap=True), "what it measures", box=None, header_style="dim", padding=(0, 2, 0, 0))

    metrics, baselines, known = table_of("metric"), table_of("baseline"), registry.list_metrics().values()
    for metric in {metric.base: metric for metric in known}.values():
        operators = ", ".join(f"_{other.operator}" for other in known if other.base == metric.base and metric.operator)
        about = "; ".join(filter(None, [metric.role, operators, metric.paper]))
        name = f"{metric.base} {registry.ARROWS[metric.direction]}"
        metrics.add_row(name, Text.assemble(metric.summary, (f"\n{about}", "dim")))
    for baseline in registry.list_baselines().values():
        about = f"costs {baseline.cost}; {baseline.paper}"
        baselines.add_row(baseline.name, Text.assemble(baseline.summary, (f"\n{about}", "dim")))
    note = "\n↑ higher is better, ↓ lower; _delete, _mask, _pad: how tokens are removed\n"
    return Group(metrics, Text(note, "dim"), baselines)
