"""`thalweg probe`: train and test probes on a file of texts, or ask saved ones about one text."""

import csv
import json as json_format
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from thalweg.errors import InputError

Commas = "separated by commas"


def probe(
    text: Annotated[str | None, typer.Argument(help="With --apply: the text to ask about.", show_default=False)] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Texts, one per line; or .jsonl or .tsv with --text-column.")
    ] = None,
    text_column: Annotated[str, typer.Option(help="Where a .jsonl or .tsv has its texts.")] = "text",
    limit: Annotated[int | None, typer.Option(help="Read that many texts at most.", min=1)] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A folder or a hub name; the model that ships if left out.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The model's task, where its checkpoint does not say.")] = None,
    device: Annotated[str | None, typer.Option(help="Where the model runs, as in cuda:0.")] = None,
    dtype: Annotated[str | None, typer.Option(help="The precision it runs in, as in bfloat16.")] = None,
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
    json: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON; - for the screen.")] = None,
) -> None:
    """Say how well tokens can be recovered from their hidden states, layer by layer."""
    from thalweg.cli import main

    if (file is None) == (apply is None) or (apply is None) != (text is None):
        raise InputError(
            "give either --file with texts to train and test probes on, or --apply with a folder and a text"
        )
    result: Any
    if apply is not None and text is not None:
        from thalweg.probing.result import Probes

        probes = Probes.load(apply)
        result = probes.apply(main._load(model, task, device, dtype), text)
    else:
        assert file is not None
        texts = list(read_texts(file, text_column, limit))
        from thalweg.probing.probe import probe as run

        chosen: dict[str, Any] = {
            "kinds": main._names(kinds),
            "metrics": main._names(metrics),
            "parts": main._names(parts),
            "candidates": candidates,
            "to": main._target(to),
        }
        result = run(main._load(model, task, device, dtype), texts, **chosen, seed=seed, folder=out)
    import thalweg.views.probes  # noqa: F401 - its views are found by `render`

    main._answer(result, json)


def read_texts(file: Path, column: str, limit: int | None) -> Iterator[str]:
    """The texts of a file, empty lines left out: one per line, or in a column of .jsonl or .tsv."""
    try:
        content = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        raise InputError(f"{str(file)!r} is no text in UTF-8; expected a file with one text per line")
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{str(file)!r} is empty; expected a file with one text per line")
    if file.suffix == ".jsonl":
        yield from _jsonl(file, lines[:limit], column)
    elif file.suffix == ".tsv":
        rows = csv.DictReader(lines[: None if limit is None else limit + 1], delimiter="\t", quoting=csv.QUOTE_NONE)
        if column not in (rows.fieldnames or ()):
            raise _no_column(file, column, rows.fieldnames or ())
        yield from (row[column] for row in rows if row[column])
    else:
        yield from lines[:limit]


def _jsonl(file: Path, lines: list[str], column: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            row = json_format.loads(line)
        except json_format.JSONDecodeError as error:
            raise InputError(f"line {number} of {str(file)!r} is no JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get(column), str):
            raise _no_column(file, column, row if isinstance(row, dict) else ())
        yield row[column]


def _no_column(file: Path, column: str, known: Any) -> InputError:
    return InputError(
        f"{str(file)!r} has no texts under {column!r}; choose --text-column from {', '.join(known) or '–'}"
    )
