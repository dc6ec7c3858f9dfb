"""`thalweg trust`: which heads have uniquely determined attention, with intervals and alternatives."""

from pathlib import Path
from typing import Annotated

import typer

import thalweg
from thalweg.cli.options import Device, Dtype, Html, Json, Model, Png, Target, TargetText, Task, integer_or_text
from thalweg.cli.output import check_drawing, check_writable, load_subject, show
from thalweg.errors import InputError
from thalweg.files.tables import read_texts


def trust(
    text: Annotated[str | None, typer.Argument(help="Text whose attention is certified")] = None,
    layer: Annotated[int | None, typer.Option(help="With --head: report on a single head")] = None,
    head: Annotated[int | None, typer.Option(help="With --layer: report on a single head")] = None,
    target: Target = None,
    lengths: Annotated[
        Path | None, typer.Option(help="Measure identifiability by length, on pieces of this text file")
    ] = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
) -> None:
    """Certify which heads have uniquely determined attention, and how much of it has no effect.

    With --layer and --head: intervals for the largest weights of the target's row, and alternative attention with the
    same output, verified on the model.
    """
    if (text is None) == (lengths is None):
        raise InputError("expected either a text or --lengths with a text file")
    if (layer is None) != (head is None):
        raise InputError("--layer and --head go together: use both, or neither for all heads")
    if target is not None and layer is None:
        raise InputError("--target selects rows of a single head: add --layer and --head")
    if (html or png) and (lengths or layer is not None):
        raise InputError("--html and --png show the certificate of all heads: omit --lengths, --layer and --head")
    check_drawing(html, png)
    check_writable(json)
    lines = [] if lengths is None else read_texts(lengths)
    subject = load_subject(model, task, device, dtype)
    if text is None:
        if layer is not None or target_text is not None:
            raise InputError("--lengths covers all heads of pieces of a file: omit --layer, --head and --target-text")
        show(thalweg.trust_by_length(subject, lines), json)
        return
    capture = subject.capture(text, target_text)
    if layer is None or head is None:
        show(thalweg.trust(subject, capture), json, html, png)
    else:
        show(thalweg.trust_head(subject, capture, layer, head, integer_or_text(target)), json)
