"""Options that several commands share, each written once."""

from pathlib import Path
from typing import Annotated, Any

import typer

TextArgument = Annotated[str | None, typer.Argument(help="Text to explain, or - to read it from stdin")]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        help="Texts, one per line (- for stdin), or a .csv, .tsv, .jsonl or .parquet file",
        show_default=False,
    ),
]
TextColumn = Annotated[str, typer.Option(help="Column that holds the texts")]
Pair = Annotated[
    str | None, typer.Option(help="Second text, for models that read pairs such as premise and hypothesis")
]
PairColumn = Annotated[str | None, typer.Option(help="Column of --file that holds the second texts")]
Limit = Annotated[int | None, typer.Option(help="Read at most this many texts", min=1)]
Methods = Annotated[str | None, typer.Option(help="Methods, comma-separated, see `thalweg methods`")]
Target = Annotated[
    str | None,
    typer.Option(help='Position, token, "prediction" or "all" (default: the prediction)', show_default=False),
]
TargetText = Annotated[str | None, typer.Option(help="Text for the decoder of an encoder-decoder")]
Words = Annotated[bool, typer.Option("--words", help="Merge tokens into words")]
MaxTokens = Annotated[int | None, typer.Option(help="Record longer texts as errors", min=1)]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Model folder or Hub id (default: the bundled sentiment classifier)"),
]
Task = Annotated[str | None, typer.Option(help="Task of the model (default: inferred from the checkpoint)")]
Device = Annotated[str | None, typer.Option(help="Device to run on, e.g. cuda:0")]
Dtype = Annotated[str | None, typer.Option(help="Precision to run in, e.g. bfloat16")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts that are longer than the model's window")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder to keep the run in; an interrupted run resumes there", show_default=False),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON, to stdout with -")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a self-contained HTML page")]
Png = Annotated[Path | None, typer.Option("--png", help="Write a figure as PNG (extra: plots)")]
Svg = Annotated[Path | None, typer.Option("--svg", help="Write a figure as SVG (extra: plots)")]
Pdf = Annotated[Path | None, typer.Option("--pdf", help="Write a figure as PDF (extra: plots)")]


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
