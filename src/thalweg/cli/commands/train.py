"""`thalweg train`: a classifier with identifiable attention, from a table of texts and labels."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.early import check_folder, check_model, early
from thalweg.cli.options import File, Json, Out, TextColumn, set_options
from thalweg.cli.output import check_outputs, load_subject, show, silence_transformers
from thalweg.cli.texts import spooled
from thalweg.errors import InputError
from thalweg.files.tables import read_labelled

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train(
    context: typer.Context,
    file: File = None,
    out: Out = None,
    text_column: TextColumn = "text",
    label_column: Annotated[str, typer.Option(help="Column that holds the labels")] = "label",
    validation: Annotated[Path | None, typer.Option(help="Validation examples (default: a share of --file)")] = None,
    validation_share: Annotated[
        float | None, typer.Option(help="Share of --file used for validation (default: 0.1)")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Test examples, used for the final accuracy only")] = None,
    combine: Annotated[str, typer.Option(help="Combine heads by addition (add) or concatenation (con)")] = "add",
    key_size: Annotated[int | None, typer.Option(help="Key size per head (default: width / heads)")] = None,
    value_size: Annotated[
        int | None, typer.Option(help="Value size per head (default: width with add, width / heads with con)")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Number of layers (default: 1, or those of --init-from)", show_default=False)
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Number of heads (default: 4, or those of --init-from)", show_default=False)
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Hidden size (default: 128, or that of --init-from)", show_default=False)
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Truncate texts to this many tokens (default: 512)", show_default=False)
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Vocabulary size of the trained tokenizer (default: 8000)")
    ] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="Folder of a tokenizer to use instead")] = None,
    init_from: Annotated[
        str | None, typer.Option(help="Pretrained encoder, folder or Hub id, to take sizes, tokenizer and weights from")
    ] = None,
    distil: Annotated[
        bool, typer.Option("--distil", help="Distil the logits of --init-from, which must be a classifier")
    ] = False,
    epochs: Annotated[int, typer.Option(help="Maximum number of passes over the examples")] = 10,
    patience: Annotated[int, typer.Option(help="Epochs without improvement before training stops")] = 3,
    batch_tokens: Annotated[int, typer.Option(help="Tokens per batch, padding included")] = 1024,
    rate: Annotated[
        float | None,
        typer.Option(help="Peak learning rate (default: 0.001, or 0.0001 with --init-from)", show_default=False),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Dropout probability")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the split, the initial weights and the order")] = 0,
    json: Json = None,
) -> None:
    """Train a text classifier, and report its accuracy and the length up to which its attention is identifiable.

    With --init-from it starts from a pretrained encoder; with --distil as well, it makes an existing classifier more
    identifiable and reports both, before and after.
    """
    if vocabulary is not None and (tokenizer or init_from):
        raise InputError("--vocabulary has no effect with --tokenizer or --init-from: omit it")
    if validation_share is not None and validation is not None:
        raise InputError("--validation-share has no effect with --validation: omit one of the two")
    if distil and init_from is None:
        raise InputError("--distil needs the classifier to learn from: add --init-from")
    if file is None or out is None:
        raise InputError("expected --file with examples and --out with a new folder for the model")
    outputs = check_outputs(file, validation, test, run_folder=out, json=json)

    def make_plan(module: Any) -> Any:
        names = [field.name for field in fields(module.TrainingPlan)]  # the options are named like its fields
        return module.TrainingPlan(**set_options(**{name: context.params[name] for name in names}))

    def read(table: Path | None) -> Any:
        if table is None:
            return None
        with spooled(table) as place:
            return read_labelled(place, text_column, label_column)

    early("thalweg.encoders.training.plan", make_plan)
    check_folder(out, "thalweg.encoders.training.result", "KIND")
    tables = [read(table) for table in (file, validation, test)]
    check_model(init_from, None)
    from thalweg.encoders.training import plan as plan_module
    from thalweg.encoders.training.data import LabelledTexts
    from thalweg.encoders.training.train import train as run

    examples, validation_examples, test_examples = (table and LabelledTexts(*table) for table in tables)
    silence_transformers()
    source = None if init_from is None else load_subject(init_from, None, None, "float32")
    result = run(
        examples,
        out,
        make_plan(plan_module),
        validation=validation_examples,
        test=test_examples,
        init_from=source,
        teacher=source if distil else None,
        tokenizer=None if tokenizer is None else _tokenizer(tokenizer),
    )
    show(result, outputs)


def _tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"cannot load a tokenizer from {str(folder)!r}: {reason}") from error
