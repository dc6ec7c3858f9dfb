"""A bench in a terminal: for each metric the methods with their intervals and a verdict, then agreement and cost."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.terminal import printable
from thalweg.faithfulness.rankers import INVERSE
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.result import Bench
from thalweg.faithfulness.verdicts import competes
from thalweg.rates import LEVEL

PAIRS = 6  # of methods that agree least


def bench_text(bench: Bench) -> RenderableType:
    heading = Text.assemble(("faithfulness", "bold"))
    heading.append(f"\nmodel {printable(bench.provenance['model'])}   {bench.examples} examples, seed ", "dim")
    heading.append(f"{bench.configuration['seed']}   a blank is {bench.configuration['blank']}", "dim")
    parts: list[RenderableType] = [heading]
    for metric in bench.metrics:
        parts += [Text(), *_metric(bench, metric)]
    if bench.agreements:
        parts += [Text(), _agreement(bench)]
    if bench.failures:
        parts += [Text(), _failures(bench)]
    return Group(*parts, _notes(bench))


def _metric(bench: Bench, metric: Metric) -> list[RenderableType]:
    verdict, found = bench.verdicts[metric.name], bench.means[metric.name]
    sign = -1 if metric.direction == "higher" else 1
    title = Text.assemble((metric.label, "bold"), (f"   {metric.summary}", "dim"))
    last = "" if metric.role == "gate" else "against the best"
    columns = ("", "mean", f"{LEVEL:.0%} interval", "inputs", last)
    table = Table(*columns, box=None, header_style="dim", padding=(0, 1, 0, 0))
    known = [name for name in bench.methods if found[name].count]
    for name in sorted(known, key=lambda name: sign * found[name].mean):
        one = found[name]
        mark = _mark(bench, metric, name)
        style = "dim" if name.startswith(INVERSE) else ""
        table.add_row(
            Text(printable(name), style), f"{one.mean:+.3f}", f"{one.low:+.3f} to {one.high:+.3f}", str(one.count), mark
        )
    said = Text(verdict.said)
    if verdict.like_random:
        said.append(f"\nno difference found from random: {', '.join(verdict.like_random)}")
    return [title, table, said] if known else [title, said]


def _mark(bench: Bench, metric: Metric, name: str) -> str:
    """How a method stands to the one with the best mean: what differs for certain may still differ by little."""
    verdict = bench.verdicts[metric.name]
    if not competes(metric, name):
        return "" if name.startswith(INVERSE) else "its reference"
    if name in verdict.failed:
        return "failed"
    if name == verdict.leader:
        return "best mean"
    if name in verdict.equal:
        return "no difference found"
    found = [one for one in bench.pairs[metric.name] if {one.first, one.second} == {name, verdict.leader}]
    return f"differs by {abs(found[0].difference.mean):.3f}" if found else ""


def _agreement(bench: Bench) -> Text:
    text = Text("least agreement between methods: rank correlation, and the tokens they rank most apart", "dim")
    known = [one for one in bench.agreements if one.correlation.count and "random" not in (one.first, one.second)]
    for one in sorted(known, key=lambda one: one.correlation.mean)[:PAIRS]:
        apart = [
            f"{printable(token.token)} ({token.first_rank:.0f} against {token.second_rank:.0f} of {token.count})"
            for token in one.tokens[:2]
        ]
        text.append(f"\n{one.correlation.mean:+.2f}  {printable(one.first)}, {printable(one.second)}", "not dim")
        text.append(f"\n       {', '.join(apart)}")
    return text


def _failures(bench: Bench) -> Text:
    text = Text()
    for name, one in bench.failures.items():
        who = name if one.without_scores else f"{name}: a metric"
        text.append(f"{who} failed on {one.count} of {bench.examples} examples: ", "red")
        text.append(f"{printable(one.first[:300])}\n")
    return text


def _notes(bench: Bench) -> Text:
    cost = bench.cost
    tests = max((len(pairs) for pairs in bench.pairs.values()), default=0)
    own = ", ".join(f"{name} {passes}" for name, passes in cost.methods.items() if passes)
    text = Text(
        f"\nintervals by resampling inputs; differences by {tests} paired tests for each metric (random signs), "
        "corrected by Holm's rule; special tokens are never taken away; equal scores in the order of the text",
        "dim",
    )
    text.append(f"\ncost: {cost.total} forward passes of one example: {cost.shared} that methods share, ", "dim")
    text.append(f"{cost.metrics} for metrics (which asked for {cost.asked}); by method: {own or 'none'}", "dim")
    errors = [row["sum_error"] for row in bench.rows if row["sum_error"] is not None]
    if errors:
        text.append(f"\nlargest error of scores that should add up: {max(errors):.0e}", "dim")
    if bench.folder is not None:
        text.append(f"\nrows are in {printable(bench.folder)}", "dim")
    return text
