"""The command `thalweg`."""

import os
import sys
import traceback
from inspect import cleandoc
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

import thalweg
from thalweg.cli.bench import bench
from thalweg.cli.corpus import app as corpus
from thalweg.cli.probe import probe
from thalweg.cli.reproduce import reproduce
from thalweg.cli.shared import (
    Device,
    Dtype,
    File,
    Goal,
    Html,
    Json,
    Limit,
    Model,
    Png,
    TargetText,
    Task,
    Text,
    TextColumn,
    Words,
    answer,
    check_writable,
    draw,
    load_subject,
    names,
    number_or_text,
    written,
)
from thalweg.cli.train import train
from thalweg.errors import InputError, ModelError, ThalwegError
from thalweg.tables import read_texts

app = typer.Typer(
    help="Where each token's information comes from inside a Transformer, and when to believe it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

TextAndOptions = Annotated[
    list[str], typer.Argument(metavar="TEXT", help="The text to explain, and options of the method, as in --layer 2.")
]
_debug = False
NARROW = 72  # columns below which methods are a list, not a table
EXTRA = {"ignore_unknown_options": True}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(thalweg.__version__)
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    _set_debug(debug)


def _set_debug(wanted: bool) -> None:
    global _debug
    _debug = wanted


@app.command(context_settings=EXTRA)
def explain(
    text: TextAndOptions,
    method: Annotated[str, typer.Option(help="See `thalweg methods`.")] = "attention_rollout",
    model: Model = None,
    task: Task = None,
    target: Goal = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    words: Words = False,
    save: Annotated[Path | None, typer.Option(help="Write the result as safetensors.")] = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
) -> None:
    """Say which tokens an output came from. A method's own parameters are options too, as in --layer 2."""
    _check_drawing(html, png)
    sentence, params = _parameters(text, method)
    subject = load_subject(model, task, device, dtype)
    capture = subject.capture(sentence, target_text)
    result = thalweg.explain(subject, capture, method, number_or_text(target), **params)
    result = result.words() if words else result
    if save is not None:
        written(lambda: result.save(save), save)
    answer(result, json, html, png)


@app.command()
def compare(
    text: Text,
    methods: Annotated[
        str, typer.Option(help="Two or more methods, separated by commas.")
    ] = "raw_attention,attention_rollout",
    model: Model = None,
    task: Task = None,
    target: Goal = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    words: Words = False,
    json: Json = None,
    html: Html = None,
    png: Png = None,
) -> None:
    """Explain one text by several methods, side by side, with how far they agree."""
    _check_drawing(html, png)
    subject = load_subject(model, task, device, dtype)
    capture = subject.capture(text, target_text)
    result = thalweg.compare(subject, capture, names(methods), number_or_text(target))
    if words:
        result = thalweg.Comparison(tuple(one.words() for one in result.attributions))
    answer(result, json, html, png)


@app.command()
def mix(
    text: Annotated[str | None, typer.Argument(help="A text; or none, with --file.")] = None,
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas.")
    ] = "hidden_token_attribution,alti,norm_based",
    start: Annotated[str, typer.Option(help="Maps from the embeddings, or from the layer before.")] = "embeddings",
    file: File = None,
    text_column: TextColumn = "text",
    limit: Limit = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    json: Json = None,
) -> None:
    """Show how tokens mix: what they keep of themselves and what neighbours give, by layer and method."""
    if (text is None) == (file is None):
        raise InputError("give either a text or --file with texts")
    if file is not None and target_text is not None:
        raise InputError("--target-text belongs to one text: leave --file out")
    texts = [] if file is None else read_texts(file, text_column, limit)
    subject = load_subject(model, task, device, dtype)
    given = texts if text is None else subject.capture(text, target_text)
    answer(thalweg.mixing(subject, given, names(methods), start), json)  # pyright: ignore[reportArgumentType]


@app.command()
def trust(
    text: Annotated[str | None, typer.Argument(help="The text whose attention is judged.")] = None,
    layer: Annotated[int | None, typer.Option(help="With --head: all about one head.")] = None,
    head: Annotated[int | None, typer.Option(help="With --layer: all about one head.")] = None,
    target: Goal = None,
    lengths: Annotated[
        Path | None, typer.Option(help="A text file: figures against length instead, over pieces cut from it.")
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
    """Say for which heads attention is determined at all, how much of it has no effect, and what it could be instead.

    With --layer and --head: intervals for the largest weights of the target's row, and other attention with the same
    output, proved on the model.
    """
    if (text is None) == (lengths is None):
        raise InputError("give either a text or --lengths with a text file")
    if (layer is None) != (head is None):
        raise InputError("--layer and --head go together: give both, or neither for all heads")
    if target is not None and layer is None:
        raise InputError("--target chooses rows of one head: give --layer and --head too")
    if (html or png) and (lengths or layer is not None):
        raise InputError("--html and --png show the certificate of all heads: leave --lengths, --layer and --head out")
    _check_drawing(html, png)
    lines = [] if lengths is None else read_texts(lengths)
    subject = load_subject(model, task, device, dtype)
    if text is None:
        if layer is not None or target_text is not None:
            raise InputError("--lengths looks at all heads of pieces of a file: leave --layer, --head and texts out")
        answer(thalweg.trust_by_length(subject, lines), json)
        return
    capture = subject.capture(text, target_text)
    if layer is None or head is None:
        answer(thalweg.trust(subject, capture), json, html, png)
    else:
        answer(thalweg.trust_head(subject, capture, layer, head, number_or_text(target)), json)


@app.command()
def report(
    text: Text,
    html: Html = None,
    png: Png = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, separated by commas; what the model allows if left out.")
    ] = None,
    model: Model = None,
    task: Task = None,
    target: Goal = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    words: Words = False,
    generate: Annotated[int, typer.Option(help="Let a language model go on, by so many tokens.", min=0)] = 0,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="How far the target's largest weights could move, in every head.")
    ] = False,
) -> None:
    """Write all about one text as one page to look at: tokens, river, methods, heads, mixing, receipt."""
    if html is None and png is None:
        raise InputError("say where to write: --html report.html, or --png report.png")
    if generate and target_text is not None:
        raise InputError("--generate is for language models without an encoder: leave --target-text out")
    _check_drawing(html, png)
    subject = load_subject(model, task, device, dtype)
    found = thalweg.report(
        subject,
        text if generate else subject.capture(text, target_text),
        None if methods is None else names(methods),
        number_or_text(target),
        generate=generate,
        intervals=intervals,
        words=words,
    )
    from thalweg.views import render

    draw(found, html, png)
    Console().print(render(found))
    Console().print(f"written: {', '.join(str(path) for path in (html, png) if path)}", highlight=False, markup=False)


app.command()(probe)
app.command()(train)
app.command()(bench)
app.command()(reproduce)
app.add_typer(corpus, name="corpus")


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="A method, for its parameters.")] = None,
) -> None:
    """List the methods with their cost, guarantee and paper; or one of them with its parameters."""
    from thalweg.registry import find_method, list_methods, options

    console = Console()
    if name is None:
        table = Table(Column("method", no_wrap=True), "what it says", "cost", "guarantee", "paper")
        for one in list_methods().values():
            table.add_row(one.name, one.summary, one.cost, one.guarantee, one.paper)
        if console.width >= NARROW:
            console.print(table)
        else:
            for one in list_methods().values():
                console.print(f"{one.name}\n  {one.summary}\n  {one.paper}", markup=False, highlight=False)
        return
    chosen = find_method(name)
    console.print(f"{chosen.name}: {chosen.paper}\n\n{cleandoc(chosen.function.__doc__ or '')}\n", markup=False)
    table = Table("option", "default", "expected", "meaning")
    for one in options(chosen.params):
        table.add_row(f"--{one.name.replace('_', '-')}", str(one.default), one.choices, one.meaning)
    console.print(table)


def _check_drawing(html: Path | None, png: Path | None) -> None:
    """Say before long work what would fail after it."""
    from importlib.util import find_spec

    check_writable(html)
    check_writable(png)
    if png is not None and find_spec("matplotlib") is None:
        raise InputError("--png needs matplotlib: install thalweg[plots]")


def _parameters(arguments: list[str], method: str) -> tuple[str, dict[str, str]]:
    """The text, and `--layer 2 --head=1` as a mapping; what is wrong with a value is for the method to say.

    An option that is yes or no is a switch and takes a value only behind `=`.
    """
    from thalweg.registry import find_method, options

    switches = {one.name for one in options(find_method(method).params) if isinstance(one.default, bool)}
    texts: list[str] = []
    params: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            texts.append(argument)
            continue
        if argument == "--debug":
            _set_debug(True)
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
        raise InputError(f"{len(texts)} texts were given: {texts}; give one, in quotes if it has spaces")
    return texts[0], params


def main() -> None:
    """Run the command: exit code 2 for a user's mistake, 1 for a failure, a traceback with --debug."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except ThalwegError as error:
        _complain("error:", str(error))
        sys.exit(2 if isinstance(error, InputError | ModelError) else 1)
    except Exception as error:  # noqa: BLE001 - whatever it is, a command answers in one sentence
        _complain("failed:", f"{type(error).__name__}: {error} (thalweg --debug … shows where)")
        sys.exit(1)


def _complain(kind: str, message: str) -> None:
    """One readable sentence on stderr, or the traceback of the error that is being handled with --debug."""
    from rich.markup import escape

    from thalweg.views.terminal import printable

    if _debug:
        traceback.print_exc()
    Console(stderr=True).print(f"[red]{kind}[/red] {escape(printable(message))}", highlight=False, soft_wrap=True)
