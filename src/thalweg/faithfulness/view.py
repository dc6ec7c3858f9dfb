"""A bench on a terminal: methods, intervals and a verdict for each metric, then agreement, failures and cost."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.terminal import shown
from thalweg.faithfulness.rankers import is_floor, is_inverse
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.result import Bench
from thalweg.faithfulness.verdicts import competes
from thalweg.printable import printable, visible
from thalweg.rates import LEVEL

SHOWN_PAIRS = 6  # of methods, those that agree least
SHOWN_ERROR_CHARACTERS = 300


@shown
def bench_text(bench: Bench) -> RenderableType:
    heading = Text.assemble(("faithfulness", "bold"))
    heading.append(f"\nmodel {printable(bench.provenance['model'])}   {bench.examples} examples, seed ", "dim")
    heading.append(f"{bench.configuration['seed']}, blank token {visible(str(bench.configuration['blank']))}", "dim")
    parts: list[RenderableType] = [heading]
    for metric in bench.metrics:
        parts += [Text(), *_metric_table(bench, metric)]
    if bench.agreements:
        parts += [Text(), _agreement(bench)]
    if bench.failures:
        parts += [Text(), _failures(bench)]
    return Group(*parts, _notes(bench))


def _metric_table(bench: Bench, metric: Metric) -> list[RenderableType]:
    verdict, means = bench.verdicts[metric.name], bench.means[metric.name]
    sign = -1 if metric.direction == "higher" else 1
    title = Text.assemble((metric.label, "bold"), (f"   {metric.summary}", "dim"))
    comparison = "" if metric.role == "gate" else "against the best"
    columns = ("", "mean", f"{LEVEL:.0%} interval", "inputs", comparison)
    table = Table(*columns, box=None, header_style="dim", padding=(0, 1, 0, 0))
    known = [name for name in bench.methods if means[name].count]
    for name in sorted(known, key=lambda name: sign * means[name].mean):
        mean = means[name]
        table.add_row(
            Text(printable(name), "dim" if is_inverse(name) else ""),
            f"{mean.mean:+.3f}",
            f"{mean.low:+.3f} to {mean.high:+.3f}",
            str(mean.count),
            _against_best(bench, metric, name),
        )
    sentence = Text(visible(verdict.sentence))
    if verdict.like_random:
        sentence.append(f"\nno difference found from random: {', '.join(map(printable, verdict.like_random))}")
    return [title, table, sentence] if known else [title, sentence]


def _against_best(bench: Bench, metric: Metric, name: str) -> str:
    """How a method compares with the best mean. The size is given, since a certain difference may still be small."""
    verdict = bench.verdicts[metric.name]
    if not competes(metric, name):
        return "" if is_inverse(name) else "reference"
    if name in verdict.failed:
        return "failed"
    if name == verdict.leader:
        return "best mean"
    if name in verdict.tied:
        return "no difference found"
    tests = [test for test in bench.pairs[metric.name] if {test.first, test.second} == {name, verdict.leader}]
    return f"differs by {abs(tests[0].difference.mean):.3f}" if tests else ""


def _agreement(bench: Bench) -> Text:
    text = Text("least agreement between methods: rank correlation, and the tokens ranked furthest apart", "dim")
    informed = [
        pair
        for pair in bench.agreements
        if pair.correlation.count and not is_floor(pair.first) and not is_floor(pair.second)
    ]
    for pair in sorted(informed, key=lambda pair: pair.correlation.mean)[:SHOWN_PAIRS]:
        apart = [
            f"{printable(token.token)} ({token.first_rank:.0f} vs {token.second_rank:.0f} of {token.count})"
            for token in pair.tokens[:2]
        ]
        text.append(f"\n{pair.correlation.mean:+.2f}  {printable(pair.first)}, {printable(pair.second)}", "not dim")
        text.append(f"\n       {', '.join(apart)}")
    return text


def _failures(bench: Bench) -> Text:
    text = Text()
    for name, failures in bench.failures.items():
        source = name if failures.without_scores else f"{name}: a metric"
        text.append(f"{source} failed on {failures.count} of {bench.examples} examples: ", "red")
        text.append(f"{printable(failures.first_error[:SHOWN_ERROR_CHARACTERS])}\n")
    return text


def _notes(bench: Bench) -> Text:
    cost = bench.cost
    tests = max((len(pairs) for pairs in bench.pairs.values()), default=0)
    by_method = ", ".join(f"{printable(name)} {passes}" for name, passes in cost.methods.items() if passes)
    text = Text(
        f"\nbootstrap intervals over inputs; {tests} paired sign-flip tests per metric with Holm's correction; special "
        "tokens are never removed; ties keep the order of the text",
        "dim",
    )
    text.append(f"\ncost: {cost.total} forward passes of one example: {cost.shared} shared by all methods, ", "dim")
    text.append(
        f"{cost.metrics} for metrics ({cost.metric_requests} without caching); by method: {by_method or 'none'}", "dim"
    )
    errors = [row["sum_error"] for row in bench.rows if row["sum_error"] is not None]
    if errors:
        text.append(f"\nlargest relative error of scores with a known sum: {max(errors):.0e}", "dim")
    if bench.folder is not None:
        text.append(f"\nrows are in {printable(bench.folder)}", "dim")
    return text
