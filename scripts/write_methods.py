"""Write docs/methods.md and the table of methods in README.md from the registry: `python -m scripts.write_methods`."""

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

from thalweg.methods.registry import EVERY_KIND, Method, Traits, list_methods

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "methods.md", ROOT / "README.md"
START, END = "<!-- methods: written by `make docs` -->", "<!-- end of methods -->"
COSTS = ("low", "moderate", "high")
INTRODUCTION = """\
# Methods

Written by `make docs` from the files in `src/thalweg/methods`; [how to add a method](adding_a_method.md). Rows are
targets, columns are sources. Every option is a keyword of `thalweg.explain` and an option of `thalweg explain`. In the
formulas, n is the number of tokens and d the width of the model."""


def own_methods() -> list[Method]:
    """The methods of this repository, without those of installed packages."""
    return [method for method in list_methods().values() if method.function.__module__.startswith("thalweg.methods.")]


def methods_page(methods: Iterable[Method]) -> str:
    """The page of all methods: formula, paper, cost, guarantee, traits and options of each."""
    return "\n\n".join([INTRODUCTION, *(_section(method) for method in methods)]) + "\n"


def _section(method: Method) -> str:
    facts = (
        f"*Paper*: {method.paper}.",
        f"*Cost*: {method.cost}.",
        f"*Guarantee*: {method.guarantee}.",
        *_traits(method.traits),
    )
    lines = [f"## {method.name}", "", inspect.cleandoc(method.function.__doc__ or ""), "", "\n".join(facts)]
    if method.options:
        rows = [(f"`{entry.name}`", str(entry.default), entry.choices, entry.meaning) for entry in method.options]
        lines += ["", *_table(("option", "default", "expected", "meaning"), rows)]
    return "\n".join(lines)


def _traits(traits: Traits) -> list[str]:
    sentences = [f"*Scores*: {_scores(traits)}."]
    if traits.layer_maps == "steps":
        combined = "their product" if traits.chain == "product" else "the maximum flow through them"
        rows = ", with normalised rows" if traits.rows_sum_to_one else ""
        sentences.append(f"*Layer maps*: from each layer to the next; the scores are {combined}{rows}.")
    elif traits.layer_maps == "cumulative":
        sentences.append("*Layer maps*: from the embeddings to each layer.")
    if traits.serves != EVERY_KIND:
        sentences.append(f"*Models*: {', '.join(sorted(traits.serves))}.")
    if traits.max_tokens is not None:
        sentences.append(f"*Reports*: up to {traits.max_tokens} tokens unless requested by name.")
    return sentences


def _scores(traits: Traits) -> str:
    if traits.rows_sum_to_one:
        return "shares"
    sign = "signed" if traits.signed else "non-negative"
    explained = "of one logit" if traits.sums_to_logit else "of one output"
    return f"{sign}, {explained}" if traits.explains_logit else sign


def methods_table(methods: Iterable[Method]) -> str:
    """The table of the README: cheap methods first, then those that explain a logit."""
    ordered = sorted(methods, key=lambda m: (m.traits.explains_logit, COSTS.index(m.traits.cost), m.name))
    rows = [
        (
            f"`{method.name}`",
            method.summary.removesuffix("."),
            _scores(method.traits),
            method.cost,
            "yes" if "encoder-decoder" in method.traits.serves else "no",
        )
        for method in ordered
    ]
    return "\n".join(_table(("method", "what it measures", "scores", "cost", "encoder-decoders"), rows))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def readme_with_table(readme: str) -> str:
    """The README with the table between its two marks."""
    before, rest = readme.split(START)
    return f"{before}{START}\n{methods_table(own_methods())}\n{END}{rest.split(END)[1]}"


def main() -> None:
    PAGE.write_text(methods_page(own_methods()), encoding="utf-8")
    README.write_text(readme_with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
