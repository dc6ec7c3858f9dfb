"""Print docs/faithfulness_results.md: which methods are faithful, on the models at hand.

    python -m papers.write_faithfulness ../shared/data runs/faithfulness > docs/faithfulness_results.md

Rows are kept in the second folder, and a run that was stopped goes on. With --so-far behind the folders nothing is run,
and the page says what is there. SmolLM is looked for where `make test-real` puts it. Takes half an hour on a free core.
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

WORDS = """# Which methods are faithful, on the models at hand

Written by `scripts/write_faithfulness.py`; what each metric means is in [faithfulness.md](faithfulness.md). The arrow
says which direction is better. Means over inputs with 95 % intervals. **Bold** is the best mean and all from which no
difference to it was found, where any two differ (paired tests, corrected for all pairs of a metric). *Like random* are
those from which no difference to the random ranking was found. All of it holds for these models and these texts.
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
    longest: int | None = None
    every: int = 1  # of a file that is sorted by kind, every so many

    def examples(self, data: Path) -> list[tw.BenchExample]:
        found = read_examples(data / self.file)[:: self.every]
        return found if self.longest else found[: self.count]


TABLES = (
    Table(
        "The model that ships, movie reviews of one sentence",
        "All methods and baselines on the first sentences of SST-2's test set. Taking tokens away by deleting and by "
        "masking is not the same question: compare the columns.",
        tw.load,
        "sst2_sentences/test.tsv",
        120,
        ("all",),
        ("comprehensiveness", "sufficiency", "aopc", "comprehensiveness_mask", "sufficiency_mask", "aopc_mask",
         "log_odds", "insertion_area", "blank_out_agreement", "gradient_agreement", "randomisation"),
    ),
    Table(
        "SmolLM2-135M, pairs of BLiMP",
        "The answer is p(right word) − p(wrong word) behind a prefix; the cue is the word that decides between them. "
        "Every 329th pair of a file of nine sets, one behind the other.",
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
        "The model that ships, long reviews with human rationales",
        "Reviews of ERASER's movies that fit into the model. What people marked is what convinces; a method may be "
        "faithful to a model that reads something else.",
        tw.load,
        "eraser_movies/dev.jsonl",
        12,
        ("alti", "alti_logit", "attention_rollout", "decompx", "globenc", "norm_based", "raw_attention",
         "gradient_norm", "gradient_x_input", "integrated_gradients", "leave_one_out", "random"),
        ("plausibility", "plausibility_f1", "comprehensiveness", "sufficiency", "log_odds"),
        longest=512,
    ),
)  # fmt: skip


def run(table: Table, data: Path, runs: Path, so_far: bool) -> Bench:
    folder = runs / table.file.split("/")[0]
    if so_far:
        return tw.Bench.load(folder)
    subject = table.subject()
    examples = table.examples(data)
    if table.longest is not None:
        assert subject.tokenizer is not None
        short = [
            one for one in examples if len(subject.tokenizer(one.text, verbose=False)["input_ids"]) <= table.longest
        ]
        examples = short[: table.count]
    return tw.bench(subject, examples, table.methods, table.metrics, folder=folder)


def written(table: Table, found: Bench) -> str:
    names = [metric.label for metric in found.metrics]
    lines = [f"| | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for method in found.methods:
        lines.append(f"| `{method}` | {' | '.join(cell(found, metric, method) for metric in found.metrics)} |")
    cost = found.cost
    shown = ",".join(metric.name for metric in found.metrics)
    plain = table.every == 1 and table.longest is None
    limit, rest = (f" --limit {table.count}", "") if plain else ("", ", on the inputs described, from Python")
    inputs = str(found.examples)
    if found.examples < table.count:
        inputs = f"The run was stopped: {inputs} of {table.count}"
    return "\n".join(
        [
            f"## {table.title}\n",
            f"{table.about} {inputs} inputs, {cost.total:,} forward passes of one input, {cost.metrics:,} of them for "
            "metrics.\n",
            f"`thalweg bench --data {table.file}{limit} --methods {','.join(table.methods)} --metrics {shown}`{rest}\n",
            *lines,
            "",
            *(f"- {metric.label}: {sentence(found, metric)}" for metric in found.metrics),
            *(
                f"- {name} failed on {one.count} inputs: {one.first_error[:200]}"
                for name, one in found.failures.items()
            ),
            "",
        ]
    )


def cell(found: Bench, metric: Metric, method: str) -> str:
    one, verdict = found.means[metric.name][method], found.verdicts[metric.name]
    if not one.count:
        return "–"
    mean = f"{one.mean:.3f}"
    if verdict.differ and method in (verdict.leader, *verdict.tied):
        mean = f"**{mean}**"
    return f"{mean} [{one.low:.3f}, {one.high:.3f}]"


def sentence(found: Bench, metric: Metric) -> str:
    verdict = found.verdicts[metric.name]
    alike = f". *Like random*: {', '.join(verdict.like_random)}" if verdict.like_random else ""
    return f"{verdict.sentence}{alike}"


def main() -> None:
    data, runs = map(Path, sys.argv[1:3])
    print(WORDS)
    for table in TABLES:
        print(written(table, run(table, data, runs, "--so-far" in sys.argv[3:])), flush=True)


if __name__ == "__main__":
    main()
