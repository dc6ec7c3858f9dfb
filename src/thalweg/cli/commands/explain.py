"""`thalweg explain`: which tokens an output came from, by one method."""

from pathlib import Path
from typing import Annotated

import typer

import thalweg
from thalweg.cli.options import (
    Device,
    Dtype,
    Html,
    Json,
    Model,
    Png,
    Target,
    TargetText,
    Task,
    Words,
    integer_or_text,
    set_options,
)
from thalweg.cli.output import check_drawing, check_writable, load_subject, set_debug, show, write_checked
from thalweg.errors import InputError

CONTEXT_SETTINGS = {"ignore_unknown_options": True}  # a method's own parameters are options too


def explain(
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="Text to explain, and parameters of the method, e.g. --layer 2")
    ],
    method: Annotated[str | None, typer.Option(help="Method to use, see `thalweg methods` (default: alti)")] = None,
    model: Model = None,
    task: Task = None,
    target: Target = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    words: Words = False,
    save: Annotated[Path | None, typer.Option(help="Write the result as safetensors")] = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
) -> None:
    """Show which tokens an output came from. A method's own parameters are options too, e.g. --layer 2."""
    check_drawing(html, png)
    check_writable(json, save)
    sentence, params = _split_arguments(text, method)
    subject = load_subject(model, task, device, dtype)
    capture = subject.capture(sentence, target_text)
    chosen = set_options(method=method)
    result = thalweg.explain(subject, capture, target=integer_or_text(target), **chosen, **params)
    result = result.words() if words else result
    if save is not None:
        write_checked(lambda: result.save(save), save)
    show(result, json, html, png)


def _split_arguments(arguments: list[str], method: str | None) -> tuple[str, dict[str, str]]:
    """Split arguments into the text and the method's parameters, `--layer 2` or `--layer=2`.

    A yes-or-no parameter is a switch and takes a value only after `=`.
    """
    from thalweg.attribution.explain import DEFAULT_METHOD
    from thalweg.methods.registry import find_method

    options = find_method(method or DEFAULT_METHOD).options
    switches = {option.name for option in options if isinstance(option.default, bool)}
    texts: list[str] = []
    params: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            texts.append(argument)
            continue
        if argument == "--debug":
            set_debug(True)
            continue
        name, equals, value = argument.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not equals and name in switches:
            value = "yes"
        elif not equals:
            value = next(rest, "")
            if not value or value.startswith("--"):
                raise InputError(f"the option --{name} needs a value")
        params[name] = value
    if len(texts) != 1:
        raise InputError(f"expected one text, got {len(texts)}: {texts}; quote a text that has spaces")
    return texts[0], params
