"""The evaluation of one example: a case, a ranking per method, a value per metric, and the row that holds them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from time import perf_counter

from thalweg.errors import MissingExtraError, error_line
from thalweg.faithfulness.case import Case, make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.rankers import Ranker
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.row_store import Row, empty_row
from thalweg.faithfulness.scoring import Meter, count_passes
from thalweg.faithfulness.shuffle import shuffle_weights
from thalweg.models.subject import Subject


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Methods and metrics on a model, to be applied to one example after another."""

    subject: Subject
    rankers: tuple[Ranker, ...]
    metrics: tuple[Metric, ...]
    other_seeds: tuple[Subject, ...] = ()
    max_tokens: int | None = None
    seed: int = 0

    @cached_property
    def shuffled_subject(self) -> Subject | None:
        """The model with shuffled weights, if a metric compares with it."""
        gated = any(metric.role == "gate" for metric in self.metrics)
        return shuffle_weights(self.subject, self.seed) if gated else None

    def rows(self, number: int, example: BenchExample) -> list[Row]:
        """One row per method. An error of the example, a method or a metric is recorded in the rows it concerns."""
        shuffled = () if self.shuffled_subject is None else (self.shuffled_subject,)
        subjects = (self.subject, *shuffled, *self.other_seeds)
        for subject in subjects:
            _learn_wiring(subject, example.text)
        with count_passes(*(subject.model for subject in subjects)) as meter:
            try:
                case = self._case(number, example)
            except Exception as error:  # noqa: BLE001 - the run continues with the next example
                failed = {"error": error_line(error)}
                rows = [self._empty_row(number, ranker) | failed for ranker in self.rankers]
                return _with_shared_passes(rows, meter.passes)
            shared = meter.passes
            # All rankings come first: inputs that a metric has already run would make later methods look cheap.
            ranked = [self._ranked_row(case, ranker, meter) for ranker in self.rankers]
            rows = [
                row if row["scores"] is None else self._measured_row(case, ranker, row, meter)
                for ranker, row in zip(self.rankers, ranked, strict=True)
            ]
        return _with_shared_passes(rows, shared)

    def _case(self, number: int, example: BenchExample) -> Case:
        case = make_case(self.subject, example, number, self.seed, self.max_tokens)
        case.scorer([case.original])

        # Each model has a seed of its own, so that random scores do not look robust.
        def on_other_model(subject: Subject, place: int) -> Callable[[], Case]:
            return cache(lambda: make_case(subject, example, number, self.seed + 1 + place))

        seeds = tuple(on_other_model(subject, place) for place, subject in enumerate(self.other_seeds))
        shuffled = self.shuffled_subject
        return replace(
            case, shuffled=None if shuffled is None else on_other_model(shuffled, len(seeds)), other_seeds=seeds
        )

    def _empty_row(self, number: int, ranker: Ranker) -> Row:
        return empty_row(number, ranker.name, self.metrics)

    def _ranked_row(self, case: Case, ranker: Ranker, meter: Meter) -> Row:
        """A row with the scores of one method, or with its error."""
        start, before = perf_counter(), meter.passes
        answer = float(case.scorer([case.original])[0])
        row = self._empty_row(case.number, ranker) | {"prediction": case.prediction, "answer": answer}
        try:
            ranking = ranker(case)
        except MissingExtraError:
            raise  # not the method's fault, and a stored row would not be tried again
        except Exception as error:  # noqa: BLE001 - the run continues with the next method
            result = {"error": error_line(error)}
        else:
            result = {
                "sum_error": ranking.sum_error,
                "tokens": list(case.pieces),
                "scores": ranking.removable_scores.tolist(),
            }
        return row | result | {"method_passes": meter.passes - before, "seconds": perf_counter() - start}

    def _measured_row(self, case: Case, ranker: Ranker, row: Row, meter: Meter) -> Row:
        """The row with a value for every metric."""
        ranking, passes, requests = ranker(case), meter.passes, case.scorer.requests
        values, errors = {}, []
        for metric in self.metrics:
            try:
                values[metric.name] = metric(ranking)
            except MissingExtraError:
                raise
            except Exception as error:  # noqa: BLE001 - the run continues with the next metric
                errors.append(f"{metric.name}: {error_line(error)}")
        return row | {
            **values,
            "error": "; ".join(errors) or None,
            "metric_passes": meter.passes - passes,
            "metric_requests": case.scorer.requests - requests,
        }


def _with_shared_passes(rows: list[Row], passes: int) -> list[Row]:
    """The first row of an example carries the passes that all methods share."""
    return [rows[0] | {"shared_passes": passes}, *rows[1:]]


def _learn_wiring(subject: Subject, text: str) -> None:
    """Learn the wiring before passes are counted, so that a resumed run counts the same as an uninterrupted one."""
    with suppress(Exception):  # raised again, and recorded, when the example is captured
        subject.anatomy(subject.encode(text))
