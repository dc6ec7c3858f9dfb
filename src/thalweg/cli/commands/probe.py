"""`thalweg probe`: train and test probes on a file of texts, or apply saved ones to one text."""

from pathlib import Path
from typing import Annotated, Any

import typer

import thalweg
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Json,
    Limit,
    Model,
    Task,
    TextColumn,
    integer_or_text,
    set_options,
    split_names,
)
from thalweg.cli.output import check_writable, load_subject, show
from thalweg.errors import InputError
from thalweg.files.tables import read_texts


def probe(
    text: Annotated[
        str | None, typer.Argument(help="With --apply: text to apply the probes to", show_default=False)
    ] = None,
    file: File = None,
    text_column: TextColumn = "text",
    limit: Limit = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    kinds: Annotated[str | None, typer.Option(help="identity, linear, mlp, comma-separated (default: all)")] = None,
    metrics: Annotated[str | None, typer.Option(help="cosine, l2, comma-separated (default: both)")] = None,
    parts: Annotated[
        str | None, typer.Option(help="What a probe sees: whole, angle, norm, comma-separated (default: whole)")
    ] = None,
    candidates: Annotated[str, typer.Option(help="Tokens to choose from: sentence or vocabulary")] = "sentence",
    to: Annotated[str, typer.Option(help='Layer whose states are recovered, or "previous"')] = "0",
    seed: Annotated[int, typer.Option(help="Seed of the split and of the MLPs")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder to keep the probes in; an interrupted run resumes there")
    ] = None,
    apply: Annotated[Path | None, typer.Option(help="Apply the probes of this folder to TEXT")] = None,
    json: Json = None,
) -> None:
    """Measure how well tokens can be recovered from their hidden states, layer by layer."""
    if (file is None) == (apply is None) or (apply is None) != (text is None):
        raise InputError(
            "expected either --file with texts to train and test probes on, or --apply with a folder and a text"
        )
    if apply is not None and text is not None:
        probes = thalweg.Probes.load(apply)
        show(probes.apply(load_subject(model, task, device, dtype), text), json)
        return
    assert file is not None
    check_writable(json)
    texts = read_texts(file, text_column, limit)
    chosen: dict[str, Any] = {
        "kinds": split_names(kinds),
        "metrics": split_names(metrics),
        "parts": split_names(parts),
        "candidates": candidates,
        "to": integer_or_text(to),
    }
    subject = load_subject(model, task, device, dtype)
    show(thalweg.probe(subject, texts, **set_options(**chosen), seed=seed, folder=out), json)
