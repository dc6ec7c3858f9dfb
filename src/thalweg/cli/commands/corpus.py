"""`thalweg corpus`: run methods and certificates over a file of texts; `query`, `report` and `export` read the rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from thalweg.cli.early import check_folder, check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Html,
    Json,
    Limit,
    Model,
    Out,
    Target,
    Task,
    TextColumn,
    Truncate,
    integer_or_text,
    set_options,
    split_names,
)
from thalweg.cli.output import STDOUT, check_outputs, is_quiet, load_subject, print_note, print_out, show, write_checked
from thalweg.cli.texts import spooled
from thalweg.errors import InputError, unknown_name
from thalweg.files.tables import stream_identified

if TYPE_CHECKING:
    from thalweg.corpus.job import CertificateKind, TextKind

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def corpus(
    context: typer.Context,
    file: File = None,
    out: Out = None,
    model: Model = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, comma-separated, e.g. alti:measure=l2; '' for none")
    ] = None,
    target: Target = None,
    certificate: Annotated[
        str,
        typer.Option(help="Certificate of every head: values, full (uses the keys too, far slower), or '' for none"),
    ] = "values",
    maps: Annotated[bool, typer.Option("--maps", help="Write all scores as well, as safetensors")] = False,
    top: Annotated[int, typer.Option(help="Sources to keep per method in a row", min=1)] = 5,
    max_tokens: Annotated[
        int | None,
        typer.Option(help="Record longer texts as errors (default: 512, or the model's positions)", min=1),
    ] = None,
    batch: Annotated[int, typer.Option(help="Maximum number of texts per forward pass", min=1)] = 32,
    shard: Annotated[int, typer.Option(help="Maximum number of texts per shard", min=1)] = 256,
    text_column: TextColumn = "text",
    id_column: Annotated[str | None, typer.Option(help="Column that holds ids to keep in the rows")] = None,
    text: Annotated[
        str, typer.Option(help="What rows keep of a text: keep (text and shares of its words) or hash")
    ] = "keep",
    limit: Limit = None,
    engine: Annotated[
        str, typer.Option(help="local: this process; ray: several, here or on the cluster at RAY_ADDRESS")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes of the ray engine (default: one per core)", min=1)
    ] = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    truncate: Truncate = False,
    json: Json = None,
) -> None:
    """Run methods and certificates over every text of a file, and write a row per text and target.

    Rows are written to Parquet as they are computed; memory does not grow with the file. A text that fails leaves its
    error in its row. Interrupted runs resume when the same command is run again.
    """
    if context.invoked_subcommand is not None:
        _check_unused(context, context.invoked_subcommand)
        return
    if file is None or out is None:
        raise InputError(
            "expected --file with texts and --out with a folder; or: thalweg corpus query FOLDER SQL, "
            "or: thalweg corpus report FOLDER, or: thalweg corpus export FOLDER"
        )
    outputs = check_outputs(file, run_folder=out, json=json)
    chosen = set_options(methods=split_names(methods))
    kind = cast("CertificateKind | None", certificate or None)  # check_work checks it
    early("thalweg.corpus.job", lambda module: module.check_work(chosen.get("methods", ["alti"]), kind, text))
    check_folder(out, "thalweg.corpus.shard_store", "KIND")
    early("thalweg.corpus.engines", lambda module: module.check_engine(engine, workers))
    check_model(model, task)
    with spooled(file) as table:
        next(stream_identified(table, text_column, id_column), None)  # fail before the model is loaded
        subject = load_subject(model, task, device, dtype, truncate)
        from thalweg.corpus.run import run_corpus

        result = run_corpus(
            subject,
            table,
            out,
            **chosen,
            target=integer_or_text(target),
            certificate=kind,
            maps=maps,
            top=top,
            max_tokens=max_tokens,
            batch=batch,
            shard=shard,
            column=text_column,
            id_column=id_column,
            text=cast("TextKind", text),  # likewise
            limit=limit,
            engine=engine,
            workers=workers,
        )
    show(result, outputs)
    if result.counts.failed == result.texts:
        raise InputError(f"all {result.texts} texts failed; first error: {result.counts.first_error}")


@app.command(context_settings={"ignore_unknown_options": True})  # SQL may begin with a comment
def query(
    folder: Annotated[Path, typer.Argument(help="Folder of a run")],
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help='Query, e.g. "SELECT token, count(*) FROM sources GROUP BY token"')
    ],
    json: Json = None,
) -> None:
    """Run a read-only SQL query on the rows of a run.

    The tables are rows (as stored), scores (one row per method), sources, words, agreement, layers, heads and checks.
    """
    for word in (str(folder), sql):
        if word.startswith("--") and word[2:3].isalpha():
            raise unknown_name("option", word, ("--json",))
    outputs = check_outputs(run_folder=folder, json=json)
    early("thalweg.corpus.shard_store", lambda module: module.read_header(folder, module.KIND))
    from thalweg.corpus.query import query as run_query

    show(run_query(folder, sql), outputs)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, finished or not")],
    html: Html = None,
    json: Json = None,
) -> None:
    """Summarise the rows of a folder: classes and their words, mixing, certificates, tokens, agreement and checks."""
    outputs = check_outputs(run_folder=folder, html=html, json=json)
    early("thalweg.corpus.shard_store", lambda module: module.read_header(folder, module.KIND))
    from thalweg.corpus.summarise import summarise

    show(summarise(folder), outputs)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, finished or not")],
    csv: Annotated[Path, typer.Option(help="Write the table as CSV", show_default=False)],
    table: Annotated[str, typer.Option(help="Table of `thalweg corpus query`; columns of lists are left out")] = "rows",
) -> None:
    """Export a table of a run as CSV: rows, scores, sources, words, agreement, layers, heads or checks."""
    check_outputs(run_folder=folder, csv=csv)
    if str(csv) == STDOUT:
        raise InputError("--csv must be a file, got -; query the table to print it")
    early("thalweg.corpus.shard_store", lambda module: module.read_header(folder, module.KIND))
    early("thalweg.corpus.query", lambda module: module.check_table(table))
    from thalweg.corpus.query import export_csv

    count = write_checked(lambda: export_csv(folder, table, csv), csv)
    print_note(f"wrote {csv}")
    if not is_quiet():
        print_out(f"{count:,} rows of {table}")


def _check_unused(context: typer.Context, subcommand: str) -> None:
    """Raise if options of a run were used with a subcommand, which would ignore them."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(f"--{name.replace('_', '-')} belongs to a run: omit it before {subcommand!r}")
