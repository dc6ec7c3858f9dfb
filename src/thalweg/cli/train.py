"""`thalweg train`: a classifier from a table of texts and labels, whose attention can be read up to a known length."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.shared import Json, TextColumn, answer, check_writable, load_subject, quiet
from thalweg.errors import InputError
from thalweg.tables import read_labelled

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train(
    data: Annotated[Path, typer.Option(help="The examples: .csv, .tsv, .jsonl or .parquet.")],
    out: Annotated[Path, typer.Option(help="A new folder for the model; a run that was stopped goes on there.")],
    text_column: TextColumn = "text",
    label_column: Annotated[str, typer.Option(help="Where a table has its labels.")] = "label",
    validation: Annotated[
        Path | None, typer.Option(help="Examples to choose the best epoch by; else a share of --data.")
    ] = None,
    validation_share: Annotated[float | None, typer.Option(help="That share; 0.1 if left out.")] = None,
    test: Annotated[Path | None, typer.Option(help="Examples that only the final accuracy is measured on.")] = None,
    combine: Annotated[str, typer.Option(help="Heads are added (add) or set side by side (con).")] = "add",
    key_size: Annotated[int | None, typer.Option(help="Of a head; width / heads if left out.")] = None,
    value_size: Annotated[
        int | None, typer.Option(help="Of a head; the width with add, width / heads with con.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="1, or those of --init-from.", show_default=False)] = None,
    heads: Annotated[int | None, typer.Option(help="4, or those of --init-from.", show_default=False)] = None,
    width: Annotated[int | None, typer.Option(help="128, or that of --init-from.", show_default=False)] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of a text, the rest is cut; 512 if left out.", show_default=False)
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Pieces that a tokenizer learns from the texts at most; 8000 if left out.")
    ] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A folder with a tokenizer to use instead.")] = None,
    init_from: Annotated[
        str | None, typer.Option(help="A pretrained encoder, folder or hub name: its sizes, tokenizer and weights.")
    ] = None,
    distil: Annotated[
        bool, typer.Option("--distil", help="Learn the logits of --init-from, a classifier, too.")
    ] = False,
    epochs: Annotated[int, typer.Option(help="Passes over the examples at most.")] = 10,
    patience: Annotated[int, typer.Option(help="Epochs that may bring nothing better before it stops.")] = 3,
    batch_tokens: Annotated[int, typer.Option(help="Tokens that run at once, with padding.")] = 1024,
    rate: Annotated[
        float | None, typer.Option(help="Peak learning rate; 0.001, or 0.0001 with --init-from.", show_default=False)
    ] = None,
    dropout: Annotated[float, typer.Option(help="Share of numbers left out while learning.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the split, the first weights and the order.")] = 0,
    json: Json = None,
) -> None:
    """Train a text classifier, and say how accurate it is and up to which length its attention can be read.

    With --init-from it starts from a pretrained encoder; with --distil besides, it makes an existing classifier more
    identifiable and shows both, before and after.
    """
    for name, given, instead, reason in (
        ("--vocabulary", vocabulary, tokenizer or init_from, "the tokenizer is not learnt"),
        ("--validation-share", validation_share, validation, "the validation examples are given"),
    ):
        if given is not None and instead is not None:
            raise InputError(f"{name} was given, but {reason}: leave one of the two out")
    check_writable(json)
    if distil and init_from is None:
        raise InputError("--distil learns from the classifier that --init-from names: give that too")
    examples = [
        None if file is None else read_labelled(file, text_column, label_column) for file in (data, validation, test)
    ]
    from thalweg.training.data import Examples
    from thalweg.training.plan import SHARE, VOCABULARY, Plan
    from thalweg.training.train import train as run

    plan = Plan(
        combine=combine,  # pyright: ignore[reportArgumentType]
        key_size=key_size,
        value_size=value_size,
        layers=layers,
        heads=heads,
        width=width,
        max_length=max_length,
        vocabulary=VOCABULARY if vocabulary is None else vocabulary,
        validation_share=SHARE if validation_share is None else validation_share,
        epochs=epochs,
        patience=patience,
        batch_tokens=batch_tokens,
        rate=rate,
        dropout=dropout,
        seed=seed,
    )
    quiet()
    given, chosen, tested = (None if one is None else Examples(*one) for one in examples)
    assert given is not None
    source = None if init_from is None else load_subject(init_from, None, None, "float32")
    result = run(
        given,
        out,
        plan,
        validation=chosen,
        test=tested,
        init_from=source,
        teacher=source if distil else None,
        tokenizer=None if tokenizer is None else _tokenizer(tokenizer),
    )
    answer(result, json)


def _tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"cannot read a tokenizer from {str(folder)!r}; expected a folder with a tokenizer's files ({said})"
        ) from error
