"""`thalweg explain`: which tokens an output came from, by one method."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import thalweg
from thalweg.cli.early import check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Html,
    Json,
    Model,
    Pair,
    PairColumn,
    Pdf,
    Png,
    Svg,
    Target,
    TargetText,
    Task,
    TextColumn,
    Truncate,
    Words,
    integer_or_text,
    set_options,
)
from thalweg.cli.output import check_outputs, load_subject, show
from thalweg.cli.texts import read_text
from thalweg.errors import InputError, closest, unknown_name

CONTEXT_SETTINGS = {"ignore_unknown_options": True}  # a method's own parameters are options too
LITERAL = "arguments after --"


class Command(TyperCommand):
    """Keeps what follows `--` apart: nothing there is an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[LITERAL] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


def explain(
    context: typer.Context,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Text to explain, or - to read it from stdin; and parameters of the method, e.g. --layer 2",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method to use, see `thalweg methods` (default: alti)")] = None,
    file: File = None,
    text_column: TextColumn = "text",
    pair: Pair = None,
    pair_column: PairColumn = None,
    model: Model = None,
    task: Task = None,
    target: Target = None,
    device: Device = None,
    dtype: Dtype = None,
    truncate: Truncate = False,
    target_text: TargetText = None,
    words: Words = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the result as safetensors", show_default=False)
    ] = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    svg: Svg = None,
    pdf: Pdf = None,
) -> None:
    """Show which tokens an output came from. A method's own parameters are options too, e.g. --layer 2."""
    outputs = check_outputs(file, out=out, json=json, html=html, png=png, svg=svg, pdf=pdf)
    own_options = [name for param in context.command.params for name in param.opts]
    argument, params = early(
        "thalweg.attribution.explain",
        lambda module: _split_arguments(
            text or [], context.meta[LITERAL], module.find_method(method or module.DEFAULT_METHOD), own_options
        ),
    )
    inputs = read_text(argument, file, text_column, pair, pair_column)
    check_model(model, task)
    subject = load_subject(model, task, device, dtype, truncate)
    capture = subject.capture_one(inputs, target_text)
    chosen = set_options(method=method)
    result = thalweg.explain(subject, capture, target=integer_or_text(target), **chosen, **params)
    show(result.words() if words else result, outputs)


def _split_arguments(
    arguments: list[str], literal: list[str], method: Any, own_options: list[str]
) -> tuple[str | None, dict[str, str]]:
    """Split arguments into the text, if any, and the method's parameters, `--layer 2` or `--layer=2`.

    A yes-or-no parameter is a switch and takes a value only after `=`.
    """
    defaults = {option.name: option.default for option in method.options}
    texts: list[str] = []
    params: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            texts.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if name not in defaults:
            flags = [f"--{known.replace('_', '-')}" for known in defaults]
            close = closest(flag, (*flags, *own_options))
            raise unknown_name("option", flag, flags if close is None else [close])
        if not equals and isinstance(defaults[name], bool):
            value = "yes"
        elif not equals:
            value = next(rest, "")
            if not value or value.startswith("--"):
                raise InputError(f"the option {flag} needs a value")
        params[name] = value
    method.make_params(params)
    texts += literal
    if len(texts) > 1:
        raise InputError(f"expected one text, got {len(texts)}: {texts}; quote a text that has spaces")
    return (texts[0] if texts else None), params
