"""`thalweg corpus`: every text of a file through methods and certificates; `query` and `report`: what its rows say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from thalweg.cli.shared import (
    Device,
    Dtype,
    File,
    Goal,
    Json,
    Limit,
    Model,
    Task,
    TextColumn,
    answer,
    check_writable,
    load_subject,
    names,
    number_or_text,
)
from thalweg.errors import InputError

if TYPE_CHECKING:
    from thalweg.corpus.job import Certified

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def corpus(
    context: typer.Context,
    file: File = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A new folder for the rows; a run that was stopped goes on there.", show_default=False),
    ] = None,
    model: Model = None,
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas, options as in alti:measure=l2; or none, as in ''.")
    ] = "attention_rollout,alti",
    target: Goal = None,
    certificate: Annotated[
        str, typer.Option(help="Of every head: values, or full, which asks its keys too and takes far longer; or ''.")
    ] = "values",
    maps: Annotated[bool, typer.Option("--maps", help="Write all scores too, as safetensors.")] = False,
    top: Annotated[int, typer.Option(help="Sources that a row keeps of each method.", min=1)] = 5,
    max_tokens: Annotated[
        int | None,
        typer.Option(help="Longer texts become an error; 512, or what the model has positions for.", min=1),
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts that go through the model together, at most.", min=1)] = 32,
    shard: Annotated[int, typer.Option(help="Texts that are written together, at most.", min=1)] = 256,
    text_column: TextColumn = "text",
    limit: Limit = None,
    engine: Annotated[
        str, typer.Option(help="local: in this process; ray: in several, here or on the cluster of RAY_ADDRESS.")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes that the engine ray works in; as many as there are cores.", min=1)
    ] = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = None,
) -> None:
    """Put every text of a file through methods and certificates, and write a row for each text and target.

    Rows go to Parquet files in a folder as they come; memory does not grow with the file. A text that fails leaves its
    error in a row. The same command again goes on where a run was stopped, killed or not.
    """
    if context.invoked_subcommand is not None:
        for name in context.params:
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} is for a run: leave it out before {context.invoked_subcommand!r}")
        return
    if file is None or out is None:
        raise InputError(
            "give --file with texts and --out with a folder; or: thalweg corpus query FOLDER SQL, "
            "or: thalweg corpus report FOLDER"
        )
    _check_apart(json, out)
    from thalweg.tables import stream_texts

    next(stream_texts(file, text_column), None)  # a file that cannot be read is found out before a model is loaded
    subject = load_subject(model, task, device, dtype)
    from thalweg.corpus.run import run_corpus

    found = run_corpus(
        subject,
        file,
        out,
        names(methods),
        number_or_text(target),
        certificate=cast("Certified | None", certificate or None),  # what it cannot be is said there
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
    answer(found, json)
    if found.counts.failed == found.texts:
        raise InputError(f"none of {found.texts} texts could be used; the first said: {found.counts.first_error}")


@app.command(context_settings={"ignore_unknown_options": True})  # SQL may begin with a comment
def query(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help='As in "SELECT token, count(*) FROM sources GROUP BY token".')
    ],
    json: Json = None,
) -> None:
    """Ask in SQL what the rows of a folder say; nothing else can be read, and nothing written.

    The tables are rows (as stored), scores (one for each method), sources, agreement, layers, heads and checks.
    """
    _check_apart(json, folder)
    from thalweg.corpus.query import query as ask

    answer(ask(folder, sql), json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, finished or not.")],
    out: Annotated[Path | None, typer.Option(help="Write a page that stands alone.", show_default=False)] = None,
    json: Json = None,
) -> None:
    """Sum up what the rows of a folder say: mixing, null share, certificates, tokens, agreement and checks."""
    for path in (out, json):
        _check_apart(path, folder)
    from thalweg.corpus.summary import summarise

    answer(summarise(folder), json, out)


def _check_apart(path: Path | None, folder: Path) -> None:
    """What is written beside a corpus must not take the place of its own files."""
    from thalweg.corpus.storage import OURS

    check_writable(path)
    if path is not None and path.name.startswith(OURS) and path.parent.resolve() == folder.resolve():
        raise InputError(f"{str(path)!r} would take the place of the corpus's own file; choose another name")
