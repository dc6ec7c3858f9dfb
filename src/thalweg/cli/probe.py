"""`thalweg probe`: train and test probes on a file of texts, or ask saved ones about one text."""

from pathlib import Path
from typing import Annotated, Any

import typer

import thalweg
from thalweg.cli.shared import (
    Device,
    Dtype,
    File,
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
from thalweg.tables import read_texts

Commas = "separated by commas"


def probe(
    text: Annotated[str | None, typer.Argument(help="With --apply: the text to ask about.", show_default=False)] = None,
    file: File = None,
    text_column: TextColumn = "text",
    limit: Limit = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    kinds: Annotated[str, typer.Option(help=f"Of identity, linear, mlp, {Commas}.")] = "identity,linear,mlp",
    metrics: Annotated[str, typer.Option(help=f"Of cosine, l2, {Commas}.")] = "cosine,l2",
    parts: Annotated[str, typer.Option(help=f"What a probe is shown: of whole, angle, norm, {Commas}.")] = "whole",
    candidates: Annotated[str, typer.Option(help="Tokens to choose from: sentence or vocabulary.")] = "sentence",
    to: Annotated[str, typer.Option(help='The layer whose states are recovered, or "previous".')] = "0",
    seed: Annotated[int, typer.Option(help="Of the split and of the MLPs.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Keep the probes in this folder; a run that was stopped goes on there.")
    ] = None,
    apply: Annotated[Path | None, typer.Option(help="Ask the probes of this folder about TEXT.")] = None,
    json: Json = None,
) -> None:
    """Say how well tokens can be recovered from their hidden states, layer by layer."""
    if (file is None) == (apply is None) or (apply is None) != (text is None):
        raise InputError(
            "give either --file with texts to train and test probes on, or --apply with a folder and a text"
        )
    if apply is not None and text is not None:
        probes = thalweg.Probes.load(apply)
        answer(probes.apply(load_subject(model, task, device, dtype), text), json)
        return
    assert file is not None
    check_writable(json)
    texts = read_texts(file, text_column, limit)
    chosen: dict[str, Any] = {
        "kinds": names(kinds),
        "metrics": names(metrics),
        "parts": names(parts),
        "candidates": candidates,
        "to": number_or_text(to),
    }
    subject = load_subject(model, task, device, dtype)
    answer(thalweg.probe(subject, texts, **chosen, seed=seed, folder=out), json)
