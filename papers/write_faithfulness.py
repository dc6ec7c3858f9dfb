"""Print docs/faithfulness_results.md: the faithfulness of the methods on several models.

    python -m papers.write_faithfulness ../shared/data runs/faithfulness > docs/faithfulness_results.md

Rows are kept in the second folder, so interrupted runs resume. With --so-far after the folders, the page is written
from the rows that exist. Needs the real models that `make test-real` installs. Takes half an hour on an idle core.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import thalweg as tw
from tests.real.models import smollm
from thalweg.faithfulness.examples import read_examples
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.result import Bench

INTRODUCTION = """# Faithfulness of the methods on several models

Written by `papers/write_faithfulness.py`. The metrics are defined in [faithfulness.md](faithfulness.md); arrows
point in the better direction. Values are means over inputs with 95 % intervals. **Bold** marks the best mean and
every mean that does not differ from it significantly, if any two methods differ (paired tests, corrected for all
pairs of a metric). *Like random* lists methods that do not differ significantly from the random ranking. The results
hold for these models and texts.
"""


@dataclass(frozen=True)
class Table:
    title: str
    about: str
    subject: Callable[[], tw.Subject]
    file: str
    count: int
    methods: Sequence[str]
    metrics: Sequence[str]
    max_tokens: int | None = None
    every: int = 1  # stride, for files that are sorted by kind

    def examples(self, data: Path) -> list[tw.BenchExample]:
        examples = read_examples(data / self.file)[:: self.every]
        return examples if self.max_tokens else examples[: self.count]


TABLES = (
    Table(
        "The bundled model on one-sentence movie reviews",
        "All methods and baselines on the first sentences of the SST-2 test set. Deletion and masking ask different "
        "questions: compare the columns.",
        tw.load,
        "sst2_sentences/test.tsv",
        120,
        ("all",),
        ("comprehensiveness", "sufficiency", "aopc", "comprehensiveness_mask", "sufficiency_mask", "aopc_mask",
         "log_odds", "insertion_area", "blank_out_agreement", "gradient_agreement", "randomisation"),
    ),
    Table(
        "SmolLM2-135M on BLiMP pairs",
        "The output is p(correct word) − p(wrong word) after a prefix; the cue is the word of the prefix that decides "
        "between them. Every 329th pair of a file that concatenates nine datasets.",
        smollm,
        "blimp_evidence/all.jsonl",
        27,
        ("alti", "alti_logit", "attention_flow", "attention_rollout", "attention_rollout:receptive_field=yes",
         "decompx", "globenc", "norm_based", "raw_attention", "gradient_norm", "gradient_x_input",
         "integrated_gradients", "leave_one_out", "occlusion", "random"),
        ("cue_rank", "comprehensiveness_pad", "aopc_pad", "naopc_pad", "blank_out_agreement_pad", "randomisation"),
        every=329,
    ),
    Table(
        "The bundled model on long reviews with human rationales",
        "ERASER movie reviews that fit into the model. Rationales are what convinced people; a faithful method may "
        "disagree if the model reads something else.",
        tw.load,
        "eraser_movies/dev.jsonl",
        12,
        ("alti", "alti_logit", "attention_rollout", "decompx", "globenc", "norm_based", "raw_attention",
         "gradient_norm", "gradient_x_input", "integrated_gradients", "leave_one_out", "random"),
        ("plausibility", "plausibility_f1", "comprehensiveness", "sufficiency", "log_odds"),
        max_tokens=512,
    ),
)  # fmt: skip


def run(table: Table, data: Path, runs: Path, so_far: bool) -> Bench:
    folder = runs / table.file.split("/")[0]
    if so_far:
        return tw.Bench.load(folder)
    subject = table.subject()
    examples = table.examples(data)
    if table.max_tokens is not None:
        assert subject.tokenizer is not None
        short = [
            example
            for example in examples
            if len(subject.tokenizer(example.text, verbose=False)["input_ids"]) <= table.max_tokens
        ]
        examples = short[: table.count]
    return tw.bench(subject, examples, table.methods, table.metrics, folder=folder)


def section(table: Table, result: Bench) -> str:
    names = [metric.label for metric in result.metrics]
    lines = [f"| | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for method in result.methods:
        lines.append(f"| `{method}` | {' | '.join(cell(result, metric, method) for metric in result.metrics)} |")
    cost = result.cost
    shown = ",".join(metric.name for metric in result.metrics)
    plain = table.every == 1 and table.max_tokens is None
    limit, rest = (f" --limit {table.count}", "") if plain else ("", ", on the inputs described above, from Python")
    inputs = str(result.examples)
    if result.examples < table.count:
        inputs = f"The run was interrupted after {inputs} of {table.count}"
    return "\n".join(
        [
            f"## {table.title}\n",
            f"{table.about} {inputs} inputs, {cost.total:,} forward passes of one input, {cost.metrics:,} of them for "
            "metrics.\n",
            f"`thalweg bench --file {table.file}{limit} --methods {','.join(table.methods)} --metrics {shown}`{rest}\n",
            *lines,
            "",
            *(f"- {metric.label}: {sentence(result, metric)}" for metric in result.metrics),
            *(
                f"- {name} failed on {failure.count} inputs: {failure.first_error[:200]}"
                for name, failure in result.failures.items()
            ),
            "",
        ]
    )


def cell(result: Bench, metric: Metric, method: str) -> str:
    mean, verdict = result.means[metric.name][method], result.verdicts[metric.name]
    if not mean.count:
        return "–"
    shown = f"{mean.mean:.3f}"
    if verdict.differ and method in (verdict.leader, *verdict.tied):
        shown = f"**{shown}**"
    return f"{shown} [{mean.low:.3f}, {mean.high:.3f}]"


def sentence(result: Bench, metric: Metric) -> str:
    verdict = result.verdicts[metric.name]
    alike = f". *Like random*: {', '.join(verdict.like_random)}" if verdict.like_random else ""
    return f"{verdict.sentence}{alike}"


def main() -> None:
    data, runs = map(Path, sys.argv[1:3])
    print(INTRODUCTION)
    for table in TABLES:
        print(section(table, run(table, data, runs, "--so-far" in sys.argv[3:])), flush=True)


if __name__ == "__main__":
    main()
