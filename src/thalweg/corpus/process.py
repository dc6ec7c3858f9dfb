"""From a shard of texts to its rows: the same rows for the same shard, model and job, in any process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch

from thalweg.attribution.explain import explain
from thalweg.capture.record import Capture
from thalweg.capture.target import find_target
from thalweg.corpus.captures import CapturedText, FailedText, capture_texts, readable_text
from thalweg.corpus.job import Job
from thalweg.corpus.rows import (
    Row,
    agreement_entries,
    check_entries,
    encodable,
    head_entries,
    layer_entries,
    make_row,
    method_entry,
    shortened,
    word_entries,
)
from thalweg.corpus.shards import CorpusText, Shard
from thalweg.errors import InputError, error_line
from thalweg.identifiability.certificate import certify
from thalweg.methods.params import split_options
from thalweg.models.prediction import prediction
from thalweg.models.subject import Subject

if TYPE_CHECKING:
    from thalweg.attribution.result import Attribution
    from thalweg.axes import ScoreArray

Tick = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class TextResult:
    """The rows of a text, one per target; with maps the scores by method, and the tokens."""

    rows: tuple[Row, ...]
    maps: "Mapping[str, ScoreArray]" = field(default_factory=dict)
    tokens: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class ShardResult:
    """The rows of a shard in the order of its texts; with maps the scores by text/method, and the tokens by text."""

    number: int
    rows: tuple[Row, ...]
    maps: "Mapping[str, ScoreArray]" = field(default_factory=dict)
    tokens: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def texts(self) -> int:
        return sum(row["target"] == 0 for row in self.rows)

    @property
    def failed(self) -> int:
        """Texts without results."""
        return sum(row["error"] is not None for row in self.rows)

    @property
    def incomplete(self) -> int:
        """Texts that lack a method or the certificate."""
        return sum(
            row["certificate_error"] is not None or any(entry["error"] for entry in row["methods"] or ())
            for row in self.rows
            if row["target"] == 0
        )

    @property
    def first_error(self) -> str | None:
        return next((row["error"] for row in self.rows if row["error"] is not None), None)


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one thread: sums depend on the number of threads in their last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@single_thread()
def process_shard(subject: Subject, job: Job, shard: Shard, tick: Tick | None = None) -> ShardResult:
    """Run the job on every text of a shard. A text that fails becomes a row with its error.

    `tick` is called with the number of texts finished since the last call.
    """
    results: dict[int, TextResult] = {}
    for outcome in capture_texts(subject, job, shard.texts):
        results[outcome.text.number] = _text_result(subject, job, outcome)
        if tick is not None:
            tick(1)
    ordered = [(number, results[number]) for number in sorted(results)]
    return ShardResult(
        shard.number,
        rows=tuple(row for _, result in ordered for row in result.rows),
        maps={f"{number}/{name}": scores for number, result in ordered for name, scores in result.maps.items()},
        tokens={str(number): result.tokens for number, result in ordered if result.tokens is not None},
    )


def learn_wiring(subject: Subject, text: CorpusText) -> bool:
    """Learn the model's wiring from this text, or raise if the model is not understood; False if it cannot be encoded.

    Every worker on a corpus learns from the same text, so that all of them know the same wiring.
    """
    try:
        encoded = subject.encode(readable_text(text))
    except InputError:
        return False
    subject.anatomy(encoded)
    return True


def _text_result(subject: Subject, job: Job, outcome: CapturedText | FailedText) -> TextResult:
    if isinstance(outcome, FailedText):
        return _failure(job, outcome.text, outcome.error)
    try:
        return _explain_text(subject, job, outcome)
    except Exception as error:  # noqa: BLE001 - one bad text must not end the run
        return _failure(job, outcome.text, error)


def _failure(job: Job, text: CorpusText, error: Exception) -> TextResult:
    message = shortened(text.error or error_line(error))
    return TextResult((make_row(text, content=_content(job, text), error=message),))


def _content(job: Job, text: CorpusText) -> str | None:
    return text.text if job.text == "keep" and text.error is None else None


def _answer(subject: Subject, capture: Capture) -> Row:
    """The model's prediction for the whole text with its probability, if it makes a single one."""
    answer = prediction(subject, capture) if capture.readout else None
    return {} if answer is None else {"prediction": encodable(answer.name), "probability": answer.probability}


def _explain_text(subject: Subject, job: Job, captured: CapturedText) -> TextResult:
    start, capture = perf_counter(), captured.capture
    target = find_target(capture, job.target)
    attributions, errors = _attributions(subject, job, capture)
    figures = _text_figures(job, captured, attributions)
    positions: Sequence[int | None] = (None,) if target.pooled else target.positions
    answer = _answer(subject, capture)
    entries, groups = None, None
    if job.text == "keep" and target.positions == capture.readout and len(positions) == 1:
        entries, groups = word_entries(capture.tokens)
    rows = [
        make_row(
            captured.text,
            tokens=len(capture.tokens),
            **answer,
            target=number,
            position=position,
            token=None if position is None else encodable(capture.tokens.pieces[position]),
            words=entries,
            methods=[
                method_entry(attributions[name], name, number, position, job.top, groups)
                if name in attributions
                else {"method": name, "error": errors[name]}
                for name in job.methods
            ],
            agreement=agreement_entries(attributions, number),
        )
        for number, position in enumerate(positions)
    ]
    rows[0] = {
        **rows[0],
        **figures,
        "content": _content(job, captured.text),
        "seconds": captured.seconds + perf_counter() - start,
    }
    if not job.maps:
        return TextResult(tuple(rows))
    maps = {name: attribution.scores.astype(np.float32) for name, attribution in attributions.items()}
    return TextResult(tuple(rows), maps, tuple(map(encodable, capture.tokens.pieces)))


def _attributions(subject: Subject, job: Job, capture: Capture) -> "tuple[dict[str, Attribution], dict[str, str]]":
    """The attributions of the job's methods, and the errors of those that failed."""
    attributions: dict[str, Attribution] = {}
    errors: dict[str, str] = {}
    for name in job.methods:
        method, options = split_options(name)
        try:
            attributions[name] = explain(subject, capture, method, job.target, **options)
        except Exception as error:  # noqa: BLE001 - the other methods are kept
            errors[name] = shortened(error_line(error))
    return attributions, errors


def _text_figures(job: Job, captured: CapturedText, attributions: "Mapping[str, Attribution]") -> Row:
    """The columns that belong to the text as a whole: mixing, certificate and checks."""
    receipts = {name: attribution.receipt for name, attribution in attributions.items()}
    figures: Row = {
        "layers": [
            entry
            for name, attribution in attributions.items()
            for entry in layer_entries(captured.capture, attribution, name)
        ]
    }
    if job.certificate:
        try:
            certificate = certify(captured.capture) if captured.brief is None else captured.brief
            if isinstance(certificate, Exception):
                raise certificate
            figures["heads"] = head_entries(certificate)
            receipts["certificate"] = certificate.receipt
        except Exception as error:  # noqa: BLE001 - the methods are kept
            figures["certificate_error"] = shortened(error_line(error))
    return {**figures, "checks": check_entries(receipts)}
