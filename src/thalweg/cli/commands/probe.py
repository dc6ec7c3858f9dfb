"""`thalweg probe`: train and test probes on a file of texts, or apply saved ones to one text."""

from pathlib import Path
from typing import Annotated, Any

import typer

import thalweg
from thalweg.cli.early import check_folder, check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Json,
    Limit,
    Model,
    Out,
    Task,
    TextColumn,
    Truncate,
    integer_or_text,
    set_options,
    split_names,
)
from thalweg.cli.output import check_outputs, load_subject, show
from thalweg.cli.texts import read_file, read_text
from thalweg.errors import InputError


def probe(
    text: Annotated[
        str | None,
        typer.Argument(
            help="With --apply: text to apply the probes to, or - to read it from stdin", show_default=False
        ),
    ] = None,
    file: File = None,
    text_column: TextColumn = "text",
    limit: Limit = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    truncate: Truncate = False,
    kinds: Annotated[str | None, typer.Option(help="identity, linear, mlp, comma-separated (default: all)")] = None,
    metrics: Annotated[str | None, typer.Option(help="cosine, l2, comma-separated (default: both)")] = None,
    parts: Annotated[
        str | None, typer.Option(help="What a probe sees: whole, angle, norm, comma-separated (default: whole)")
    ] = None,
    candidates: Annotated[str, typer.Option(help="Tokens to choose from: sentence or vocabulary")] = "sentence",
    to: Annotated[str, typer.Option(help='Layer whose states are recovered, or "previous"')] = "0",
    seed: Annotated[int, typer.Option(help="Seed of the split and of the MLPs")] = 0,
    out: Out = None,
    apply: Annotated[Path | None, typer.Option(help="Apply the probes of this folder to TEXT")] = None,
    json: Json = None,
) -> None:
    """Measure how well tokens can be recovered from their hidden states, layer by layer."""
    if (file is None) == (apply is None) or (apply is None) != (text is None):
        raise InputError(
            "expected either --file with texts to train and test probes on, or --apply with a folder and a text"
        )
    outputs = check_outputs(file, run_folder=out or apply, json=json)
    check_model(model, task)
    if apply is not None:
        applied_to = str(read_text(text, None, text_column))
        early("thalweg.probing.result", lambda module: module.read_header(apply, module.KIND))
        probes = thalweg.Probes.load(apply)
        show(probes.apply(load_subject(model, task, device, dtype, truncate), applied_to), outputs)
        return
    assert file is not None
    chosen: dict[str, Any] = set_options(
        kinds=split_names(kinds),
        metrics=split_names(metrics),
        parts=split_names(parts),
        candidates=candidates,
        to=integer_or_text(to),
        seed=seed,
    )
    early("thalweg.probing.plan", lambda module: module.ProbePlan(**chosen))
    check_folder(out, "thalweg.probing.result", "KIND")
    texts = read_file(file, text_column, limit)
    early("thalweg.probing.plan", lambda module: module.SentenceSplit.of(texts, seed))
    subject = load_subject(model, task, device, dtype, truncate)
    show(thalweg.probe(subject, texts, **chosen, folder=out), outputs)
