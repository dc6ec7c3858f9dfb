"""Which method is faithful, on my model and my data.

examples → cases → scores of every method → edited inputs, batched and kept → rows in Parquet → statistics, verdicts
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from thalweg.digests import text_digest, weights_digest
from thalweg.errors import InputError, MissingExtraError, error_line
from thalweg.faithfulness.bounds import BEAM, EXACT
from thalweg.faithfulness.case import Case, case_of, check_subject
from thalweg.faithfulness.data import BenchExample, digest_of
from thalweg.faithfulness.operators import Blanks, Operator
from thalweg.faithfulness.rankers import Ranker, find_rankers
from thalweg.faithfulness.registry import Metric, find_metrics
from thalweg.faithfulness.result import Bench
from thalweg.faithfulness.scoring import Meter, metered
from thalweg.faithfulness.shuffled import shuffled
from thalweg.faithfulness.storage import Folder, Row
from thalweg.models.encode import encode
from thalweg.models.load import Subject
from thalweg.progress import progress
from thalweg.version import __version__

METHODS = ("attention_rollout", "alti", "gradient_norm", "leave_one_out", "random")
METRICS = ("comprehensiveness", "sufficiency", "aopc")


def bench(
    subject: Subject,
    examples: Sequence[str | BenchExample],
    methods: Sequence[str] = METHODS,
    metrics: Sequence[str] = METRICS,
    *,
    operator: Operator = "delete",
    inverses: bool = False,
    other_seeds: Sequence[Subject] = (),
    max_tokens: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
) -> Bench:
    """Run every method on every example, measure each ranking, and say which differences are more than chance.

    `methods` are the library's, baselines (gradient_norm, gradient_x_input, integrated_gradients, occlusion,
    leave_one_out, random) or "all"; `inverses` adds each with its ranking turned round. `metrics` take tokens away by
    the `operator` unless their name ends in another one, as in sufficiency_mask. `other_seeds` are models that
    seed_robustness compares with. A method that fails leaves a row with its error. With a `folder` rows are
    written as they come, and a run that was killed goes on where it was; "auto" names it after what is asked.

    Metrics that take tokens away show the model texts that it was not made for: compare methods by them, not models.

    >>> import thalweg as tw
    >>> found = bench(tw.load(), ["a witty movie.", "dull and long."], ["leave_one_out", "random"], ["aopc"])
    >>> found.means["aopc_delete"]["leave_one_out"].count
    2
    """
    plan = _Plan(
        subject,
        _examples(examples),
        find_rankers(methods, inverses),
        find_metrics(metrics, operator),
        tuple(other_seeds),
        max_tokens,
        seed,
    )
    configuration = plan.configuration()
    path = None if folder is None else Path(f"bench-{_short(configuration)}" if folder == "auto" else folder)
    store = Folder(path, configuration, subject.provenance)
    disorder = None
    with store.alone(), progress("bench") as report:
        for number in range(len(plan.examples)):
            if number not in store.rows:
                if disorder is None and any(one.role == "gate" for one in plan.metrics):
                    disorder = shuffled(subject, seed)
                store.add(number, plan.rows(number, disorder))
            report(number + 1, len(plan.examples))
        rows = store.finish()
    return Bench.of(rows, configuration, subject.provenance, path)


@dataclass(frozen=True, eq=False)
class _Plan:
    subject: Subject
    examples: tuple[BenchExample, ...]
    rankers: tuple[Ranker, ...]
    metrics: tuple[Metric, ...]
    seeds: tuple[Subject, ...]
    max_tokens: int | None
    seed: int

    def __post_init__(self) -> None:
        if not self.examples:
            raise InputError("no examples were given")
        if self.seed < 0:
            raise InputError(f"seed was given {self.seed}; expected 0 or more")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InputError(f"max_tokens was given {self.max_tokens}; expected 1 or more")
        for one in (self.subject, *self.seeds):
            check_subject(one)
        if any(one.role == "robustness" for one in self.metrics) and not self.seeds:
            raise InputError(
                "seed_robustness compares with other seeds of the model: give them as other_seeds (--other-seeds)"
            )

    def configuration(self) -> dict[str, Any]:
        """All that the outcome depends on: choices as they are, examples and weights by a digest."""
        return {
            "thalweg": __version__,
            "methods": [one.name for one in self.rankers],
            "metrics": [one.name for one in self.metrics],
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "blank": Blanks.of(self.subject.model, self.subject.tokenizer).named,
            "bounds": f"exact to {EXACT} tokens, else {BEAM} beams",
            "examples": digest_of(self.examples),
            "weights": weights_digest(self.subject.model),
            "other seeds": text_digest([weights_digest(one.model) for one in self.seeds]),
        }

    def rows(self, number: int, disorder: Subject | None) -> list[Row]:
        """All methods on one example."""
        subjects = [one for one in (self.subject, disorder, *self.seeds) if one is not None]
        for one in subjects:
            _learn(one, self.examples[number].text)
        with ExitStack() as stack:
            models = {id(one.model): one.model for one in subjects}
            meters = [stack.enter_context(metered(model)) for model in models.values()]
            try:
                case = self._case(number, disorder)
            except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on with the next example
                rows = [self._row(number, ranker, error=error_line(error)) for ranker in self.rankers]
                rows[0]["shared_passes"] = _passes(meters)
                return rows
            shared = _passes(meters)
            rows = [self._scored(case, ranker, meters) for ranker in self.rankers]
            rows[0]["shared_passes"] = shared
            # all rankings first: what metrics ask for besides would look cheap to the methods behind them
            return [
                row if row["scores"] is None else self._measured(case, ranker, row, meters)
                for ranker, row in zip(self.rankers, rows, strict=True)
            ]

    def _case(self, number: int, disorder: Subject | None) -> Case:
        example = self.examples[number]
        case = case_of(self.subject, example, number, self.seed, self.max_tokens)
        case.scorer([case.whole])

        # other numbers by lot for other models: a ranking by chance is not robust
        def other(subject: Subject, place: int) -> Callable[[], Case]:
            return cache(lambda: case_of(subject, example, number, self.seed + 1 + place))

        seeds = tuple(other(one, place) for place, one in enumerate(self.seeds))
        return replace(case, shuffled=None if disorder is None else other(disorder, len(seeds)), seeds=seeds)

    def _row(self, number: int, ranker: Ranker, **known: Any) -> Row:
        """A row with nothing in it but what is known."""
        columns = ("error", "prediction", "answer", "seconds", "sum_error", "tokens", "scores")
        empty = dict.fromkeys((*columns, *(one.name for one in self.metrics)))
        costs = dict.fromkeys(("shared_passes", "passes", "metric_passes", "asked"), 0)
        return {"example": number, "method": ranker.name, **empty, **costs, **known}

    def _scored(self, case: Case, ranker: Ranker, meters: Sequence[Meter]) -> Row:
        """A row with the scores of one method, or with what it said instead."""
        start, before = perf_counter(), _passes(meters)
        row = self._row(case.number, ranker, prediction=case.prediction, answer=float(case.scorer([case.whole])[0]))
        try:
            ranked = ranker(case)
        except MissingExtraError:
            raise  # nothing is wrong with the method, and rows that are kept would not be tried again
        except Exception as error:  # noqa: BLE001 - a method that fails is a row, not the end of a run
            return row | {
                "error": error_line(error),
                "passes": _passes(meters) - before,
                "seconds": perf_counter() - start,
            }
        return row | {
            "passes": _passes(meters) - before,
            "seconds": perf_counter() - start,
            "sum_error": ranker.sum_error(case),
            "tokens": list(case.pieces),
            "scores": ranked.movable_scores.tolist(),
        }

    def _measured(self, case: Case, ranker: Ranker, row: Row, meters: Sequence[Meter]) -> Row:
        """The same row with a value for every metric."""
        ranked, before, asked = ranker(case), _passes(meters), case.scorer.asked
        found, errors = {}, []
        for metric in self.metrics:
            try:
                found[metric.name] = metric(ranked)
            except MissingExtraError:
                raise
            except Exception as error:  # noqa: BLE001 - nor is a metric
                errors.append(f"{metric.name}: {error_line(error)}")
        return row | {
            **found,
            "error": "; ".join(errors) or None,
            "metric_passes": _passes(meters) - before,
            "asked": case.scorer.asked - asked,
        }


def _examples(given: Sequence[str | BenchExample]) -> tuple[BenchExample, ...]:
    if isinstance(given, str):
        raise InputError("one text was given; expected a list of texts or BenchExamples")
    for one in given:
        if not isinstance(one, str | BenchExample):
            raise InputError(
                f"examples must be texts or BenchExamples, got {type(one).__name__}: {str(one)[:80]!r} (text pairs are "
                "not supported)"
            )
    return tuple(BenchExample(one) if isinstance(one, str) else one for one in given)


def _learn(subject: Subject, text: str) -> None:
    """The model's wiring, before passes are counted: a run that goes on counts what one that never stopped does."""
    with suppress(Exception):  # whatever it is, it is met again, and said, where the example is read
        subject.anatomy(encode(subject.model, subject.tokenizer, text))


def _short(configuration: dict[str, Any]) -> str:
    """The same for the same choices, examples and weights: a command that is given again finds its folder."""
    return text_digest([json.dumps(configuration, sort_keys=True)])[:8]


def _passes(meters: Sequence[Meter]) -> int:
    return sum(meter.passes for meter in meters)
