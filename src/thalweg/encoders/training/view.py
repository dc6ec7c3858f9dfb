"""A training in a terminal: what came out of it, beside its teacher if it had one, and the epochs."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.escaping import printable
from thalweg.encoders.training.result import Figures, Training
from thalweg.rates import LEVEL, Rate


def training_text(training: Training) -> RenderableType:
    heading = Text("trained classifier", "bold")
    heading.append(f"\nfolder {printable(training.folder)}   ", "dim")
    heading.append(f"labels {', '.join(map(printable, training.labels))}\n", "dim")
    before, after = training.teacher, training.figures
    names = ("", "before", "after") if before else ("", "")
    table = Table(*names, box=None, header_style="dim", show_header=before is not None)
    for (name, figure), (_, other) in zip(_rows(after), _rows(before or after), strict=True):
        table.add_row(name, *([other] if before else []), figure)
    table.add_row("time to train", *([""] if before else []), _time(training.seconds))
    return Group(heading, table, Text(), _epochs(training), _notes(training))


def _rows(figures: Figures) -> list[tuple[str, str]]:
    tested = [] if figures.test is None else [("accuracy on test examples", _rate(figures.test))]
    return [
        *tested,
        ("accuracy on validation examples", _rate(figures.validation)),
        ("attention can be read up to", f"{figures.certified_length} tokens{_untried(figures)}"),
        (f"heads that can be read at up to {figures.longest} tokens", f"{figures.identifiable:.0%}"),
        ("layers whose output tells their heads apart", f"{figures.separable:.0%}"),
        ("parameters", f"{figures.parameters:,}"),
    ]


def _untried(figures: Figures) -> str:
    return ", the longest tried" if figures.certified_length == figures.tried_length else ""


def _rate(rate: Rate) -> str:
    return f"{rate.rate:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _epochs(training: Training) -> Table:
    names = ("epoch", "training loss", "validation loss", "accuracy", "")
    table = Table(*names, box=None, header_style="dim")
    for one in training.history:
        learnt = "–" if one.training_loss is None else f"{one.training_loss:.4f}"
        best = "best" if one.number == training.best_epoch else ""
        table.add_row(str(one.number), learnt, f"{one.validation_loss:.4f}", f"{one.validation_accuracy:.1%}", best)
    return table


def _notes(training: Training) -> Text:
    counts, figures = training.counts, training.figures
    text = Text(
        f"\n{counts['training examples']:,} examples to learn from, "
        f"{counts['validation examples']:,} to choose the epoch by"
        + (f", {counts['test examples']:,} for nothing but the test" if "test examples" in counts else "")
        + f"; {LEVEL:.0%} intervals; heads certified on the {figures.certified_texts} longest validation texts, each "
        "head's own output taken as known",
        "dim",
    )
    cut = counts["training texts at the length limit"]
    if cut:
        text.append(f"\n{cut:,} training texts reach the limit of {training.configuration['max_length']} tokens", "dim")
    if training.inherited is not None:
        exact, approximate, left = (len(training.inherited[name]) for name in ("exact", "approximate", "left"))
        text.append(f"\nweights taken over: {exact} as they were, {approximate} nearly, {left} begun anew", "dim")
    return text


def _time(seconds: float) -> str:
    return f"{seconds:.1f} seconds" if seconds < 120 else f"{seconds / 60:.1f} minutes"
