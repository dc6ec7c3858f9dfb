"""Options that several commands share, each written once."""

from pathlib import Path
from typing import Annotated, Any

import typer

Text = Annotated[str, typer.Argument(help="Text to explain")]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Model folder or Hub id (default: the bundled sentiment classifier)"),
]
Task = Annotated[str | None, typer.Option(help="Task of the model (default: inferred from the checkpoint)")]
Target = Annotated[
    str | None,
    typer.Option(help='Position, token, "prediction" or "all" (default: the prediction)', show_default=False),
]
Device = Annotated[str | None, typer.Option(help="Device to run on, e.g. cuda:0")]
Dtype = Annotated[str | None, typer.Option(help="Precision to run in, e.g. bfloat16")]
TargetText = Annotated[str | None, typer.Option(help="Text for the decoder of an encoder-decoder")]
Words = Annotated[bool, typer.Option("--words", help="Merge tokens into words")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a self-contained HTML page")]
Png = Annotated[Path | None, typer.Option("--png", help="Write a figure as PNG (extra: plots)")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON, to stdout with -")]
File = Annotated[
    Path | None, typer.Option("--file", "-f", help="Texts, one per line, or a .csv, .tsv, .jsonl or .parquet file")
]
TextColumn = Annotated[str, typer.Option(help="Column that holds the texts")]
Limit = Annotated[int | None, typer.Option(help="Read at most this many texts", min=1)]


def split_names(listed: str | None) -> list[str] | None:
    """Split a comma-separated list; None if the option was not used."""
    return None if listed is None else [name.strip() for name in listed.split(",") if name.strip()]


def integer_or_text(value: str | None) -> Any:
    """The value as an integer if it is one, e.g. a position or layer."""
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        return value


def set_options(**values: Any) -> dict[str, Any]:
    """Drop options that were not used, so that the library's defaults apply."""
    return {name: value for name, value in values.items() if value is not None}
