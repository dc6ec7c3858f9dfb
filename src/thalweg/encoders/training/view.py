"""Terminal view of a training run: the figures of the classifier, beside its teacher's if any, and the epochs."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.terminal import shown
from thalweg.encoders.training.result import ClassifierFigures, Training
from thalweg.printable import printable
from thalweg.rates import LEVEL, Rate


@shown
def training_text(training: Training) -> RenderableType:
    heading = Text("trained classifier", "bold")
    heading.append(f"\nfolder {printable(training.folder)}   ", "dim")
    heading.append(f"labels {', '.join(map(printable, training.labels))}\n", "dim")
    before, after = training.teacher, training.figures
    names = ("", "before", "after") if before else ("", "")
    table = Table(*names, box=None, header_style="dim", show_header=before is not None)
    for (name, own), (_, teacher) in zip(_rows(after), _rows(before or after), strict=True):
        table.add_row(name, *([teacher] if before else []), own)
    table.add_row("training time", *([""] if before else []), _duration(training.seconds))
    return Group(heading, table, Text(), _epochs(training), _notes(training))


def _rows(figures: ClassifierFigures) -> list[tuple[str, str]]:
    test = [] if figures.test is None else [("test accuracy", _rate(figures.test))]
    reached = ", the longest tried" if figures.certified_length == figures.tried_length else ""
    return [
        *test,
        ("validation accuracy", _rate(figures.validation)),
        ("all heads identifiable up to", f"{figures.certified_length} tokens{reached}"),
        (f"identifiable heads at up to {figures.longest} tokens", f"{figures.identifiable:.0%}"),
        ("layers whose output determines their heads", f"{figures.separable:.0%}"),
        ("parameters", f"{figures.parameters:,}"),
    ]


def _rate(rate: Rate) -> str:
    return f"{rate.rate:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _epochs(training: Training) -> Table:
    names = ("epoch", "training loss", "validation loss", "accuracy", "")
    table = Table(*names, box=None, header_style="dim")
    for epoch in training.history:
        loss = "–" if epoch.training_loss is None else f"{epoch.training_loss:.4f}"
        best = "best" if epoch.number == training.best_epoch else ""
        accuracy = f"{epoch.validation_accuracy:.1%}"
        table.add_row(str(epoch.number), loss, f"{epoch.validation_loss:.4f}", accuracy, best)
    return table


def _notes(training: Training) -> Text:
    counts, figures = training.counts, training.figures
    test = f", {counts['test examples']:,} test" if "test examples" in counts else ""
    text = Text(
        f"\n{counts['training examples']:,} training, {counts['validation examples']:,} validation{test} examples; "
        f"{LEVEL:.0%} intervals; heads certified on the {figures.certified_texts} longest validation texts, given each "
        "head's own output",
        "dim",
    )
    truncated = counts["training texts at the length limit"]
    if truncated:
        limit = training.configuration["max_length"]
        text.append(f"\n{truncated:,} training texts reach the limit of {limit} tokens", "dim")
    if training.inherited is not None:
        inherited = training.inherited
        exact, approximate, fresh = len(inherited.exact), len(inherited.approximate), len(inherited.fresh)
        text.append(f"\ninherited weights: {exact} exact, {approximate} approximate, {fresh} fresh", "dim")
    return text


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} seconds" if seconds < 120 else f"{seconds / 60:.1f} minutes"
