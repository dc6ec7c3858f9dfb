"""`thalweg corpus`: run methods and certificates over a file of texts; `query` and `report` read the rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Json,
    Limit,
    Model,
    Target,
    Task,
    TextColumn,
    integer_or_text,
    set_options,
    split_names,
)
from thalweg.cli.output import check_writable, load_subject, show
from thalweg.errors import InputError

if TYPE_CHECKING:
    from thalweg.corpus.job import CertificateKind

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def corpus(
    context: typer.Context,
    file: File = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for the rows; an interrupted run resumes there", show_default=False),
    ] = None,
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
            "or: thalweg corpus report FOLDER"
        )
    _check_apart(json, out)
    from thalweg.files.tables import stream_texts

    next(stream_texts(file, text_column), None)  # fail before the model is loaded
    subject = load_subject(model, task, device, dtype)
    from thalweg.corpus.run import run_corpus

    result = run_corpus(
        subject,
        file,
        out,
        **set_options(methods=split_names(methods)),
        target=integer_or_text(target),
        certificate=cast("CertificateKind | None", certificate or None),  # run_corpus checks it
        maps=maps,
        top=top,
        max_tokens=max_tokens,
        batch=batch,
        shard=shard,
        column=text_column,
        limit=limit,
        engine=engine,
        workers=workers,
    )
    show(result, json)
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

    The tables are rows (as stored), scores (one row per method), sources, agreement, layers, heads and checks.
    """
    _check_apart(json, folder)
    from thalweg.corpus.query import query as run_query

    show(run_query(folder, sql), json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, finished or not")],
    out: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page", show_default=False)] = None,
    json: Json = None,
) -> None:
    """Summarise the rows of a folder: mixing, null share, certificates, tokens, agreement and checks."""
    for path in (out, json):
        _check_apart(path, folder)
    from thalweg.corpus.summarise import summarise

    show(summarise(folder), json, out)


def _check_unused(context: typer.Context, subcommand: str) -> None:
    """Raise if options of a run were used with a subcommand, which would ignore them."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(f"--{name.replace('_', '-')} belongs to a run: omit it before {subcommand!r}")


def _check_apart(path: Path | None, folder: Path) -> None:
    """Raise if an output could not be written, or would overwrite one of the corpus's own files."""
    from thalweg.corpus.shard_store import OWN_FILES

    check_writable(path)
    if path is not None and path.name.startswith(OWN_FILES) and path.parent.resolve() == folder.resolve():
        raise InputError(f"{path} would overwrite one of the corpus's own files; choose another name")
