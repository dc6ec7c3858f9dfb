"""Benchmark of faithfulness: which method to trust on a given model and dataset.

examples → a case each (case.py) → rankings by every method (rankers.py) → values of every metric (evaluation.py) → rows
in Parquet (row_store.py) → means and paired tests (statistics.py) → verdicts (verdicts.py) → `Bench` (result.py)
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from thalweg.decompose.edits import Operator
from thalweg.digests import text_digest
from thalweg.errors import InputError
from thalweg.faithfulness.bounds import BEAM_WIDTH, MAX_EXACT_TOKENS
from thalweg.faithfulness.case import check_subject, is_contrastive
from thalweg.faithfulness.evaluation import Evaluation
from thalweg.faithfulness.examples import BenchExample, examples_digest
from thalweg.faithfulness.rankers import find_rankers
from thalweg.faithfulness.registry import find_metrics
from thalweg.faithfulness.result import Bench
from thalweg.faithfulness.row_store import BENCH_RUN, open_rows
from thalweg.files.run_folder import RunHeader
from thalweg.jsonable import jsonable
from thalweg.models.padding import blanks_of
from thalweg.models.subject import Subject
from thalweg.progress import progress

DEFAULT_METHODS = ("attention_rollout", "alti", "gradient_norm", "leave_one_out", "random")
DEFAULT_METRICS = ("comprehensiveness", "sufficiency", "aopc")
SHOWN_CHARACTERS = 80  # of a value in an error


@torch.inference_mode(False)  # also if the caller disabled gradients
def bench(
    subject: Subject,
    examples: Sequence[str | BenchExample],
    methods: Sequence[str] = DEFAULT_METHODS,
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    operator: Operator = "delete",
    inverses: bool = False,
    other_seeds: Sequence[Subject] = (),
    max_tokens: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
) -> Bench:
    """Run every method on every example, score each ranking, and test which differences are more than chance.

    `methods` are names of methods, "random" for random scores, or "all"; `inverses` adds the reverse of each ranking.
    `metrics` remove tokens with the `operator` unless their name ends in one, as in sufficiency_mask. `other_seeds` are
    the models that seed_robustness compares with. Texts of more than `max_tokens` tokens are recorded as errors, and so
    are methods that fail. With a `folder`, rows are written as they are computed and an interrupted run resumes; "auto"
    names the folder after the run's identity.

    Inputs with removed tokens are unlike the model's training data: use these metrics to compare methods, not models.

    >>> import thalweg as tw
    >>> result = bench(tw.load(), ["a witty movie.", "dull and long."], ["leave_one_out", "random"], ["aopc"])
    >>> result.means["aopc_delete"]["leave_one_out"].count
    2
    """
    dataset = _as_examples(examples)
    evaluation = Evaluation(
        subject,
        find_rankers(methods, inverses),
        find_metrics(metrics, operator),
        tuple(other_seeds),
        max_tokens,
        seed,
    )
    _check(evaluation, dataset)
    header = _run_header(evaluation, dataset)
    path = None if folder is None else Path(f"bench-{header.digest[:8]}" if folder == "auto" else folder)
    with open_rows(path, header, evaluation.metrics) as store, progress("bench") as report:
        for number, example in enumerate(dataset):
            if number not in store.rows:
                store.add(number, evaluation.rows(number, example))
            report(number + 1, len(dataset))
        rows = store.finish()
    return Bench.of(rows, header if store.folder is None else store.folder.header, path)


def check_names(
    methods: Sequence[str] = DEFAULT_METHODS, metrics: Sequence[str] = DEFAULT_METRICS, operator: Operator = "delete"
) -> None:
    """Raise for methods, metrics or an operator that do not exist."""
    find_rankers(methods)
    find_metrics(metrics, operator)


def _as_examples(examples: Sequence[str | BenchExample]) -> tuple[BenchExample, ...]:
    if isinstance(examples, str):
        raise InputError(f"examples must be a list of texts or BenchExamples, got one text: {_short(examples)}")
    for example in examples:
        if not isinstance(example, str | BenchExample):
            raise InputError(
                f"examples must be texts or BenchExamples, got {type(example).__name__}: {_short(example)} (text pairs "
                "are not supported)"
            )
    return tuple(BenchExample(example) if isinstance(example, str) else example for example in examples)


def _short(value: object) -> str:
    return repr(str(value)[:SHOWN_CHARACTERS])


def _check(evaluation: Evaluation, examples: Sequence[BenchExample]) -> None:
    """Raise for options that cannot work before anything runs."""
    if not examples:
        raise InputError("examples must hold at least one text, got none")
    if evaluation.seed < 0:
        raise InputError(f"seed must be at least 0, got {evaluation.seed}")
    if evaluation.max_tokens is not None and evaluation.max_tokens < 1:
        raise InputError(f"max_tokens must be at least 1, got {evaluation.max_tokens}")
    for subject in (evaluation.subject, *evaluation.other_seeds):
        check_subject(subject)
    comparing = next((metric.name for metric in evaluation.metrics if metric.role == "robustness"), None)
    if comparing is not None and not evaluation.other_seeds:
        raise InputError(f"{comparing} compares with other seeds of the model: pass other_seeds (--other-seeds)")


def _run_header(evaluation: Evaluation, examples: Sequence[BenchExample]) -> RunHeader:
    """Everything that the rows depend on."""
    subject = evaluation.subject
    identity = {
        **subject.identity(),
        "examples": examples_digest(examples),
        "contrastive": any(is_contrastive(subject, example) for example in examples),
        "methods": [ranker.name for ranker in evaluation.rankers],
        "params": jsonable({ranker.name: ranker.all_params() for ranker in evaluation.rankers}),
        "metrics": [metric.name for metric in evaluation.metrics],
        "seed": evaluation.seed,
        "max_tokens": evaluation.max_tokens,
        "blank": blanks_of(subject.model, subject.tokenizer).label,
        "bounds": f"exact up to {MAX_EXACT_TOKENS} tokens, else {BEAM_WIDTH} beams",
        "other_seeds": [text_digest([json.dumps(seed.identity())]) for seed in evaluation.other_seeds],
    }
    return RunHeader.of(BENCH_RUN, identity, subject.provenance)
