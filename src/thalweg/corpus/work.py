"""From a shard of texts to its rows: the same rows for the same shard, model and job, wherever it runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch

from thalweg.attribution.explain import explain
from thalweg.capture.record import Capture
from thalweg.capture.target import find_target
from thalweg.corpus.job import CHARACTERS, Job
from thalweg.corpus.rows import (
    Row,
    agreement_of,
    checks_of,
    heads_of,
    layers_of,
    method_of,
    plain_tokens,
    row_of,
    shortened,
)
from thalweg.corpus.shards import Shard, Text
from thalweg.errors import InputError, error_line
from thalweg.identifiability.brief_certificate import BriefCertificate, brief_certificates
from thalweg.identifiability.certificate import certify
from thalweg.methods.params import split_options
from thalweg.models.encode import encode
from thalweg.models.load import Subject

if TYPE_CHECKING:
    from thalweg.attribution.result import Attribution
    from thalweg.axes import ScoreArray

Tick = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Done:
    """The rows of a shard in the order of its texts; and where maps are asked for, scores and tokens by text."""

    number: int
    rows: tuple[Row, ...]
    maps: "dict[str, ScoreArray]" = field(default_factory=dict)
    tokens: dict[str, list[str]] = field(default_factory=dict)

    @property
    def texts(self) -> int:
        return sum(row["target"] == 0 for row in self.rows)

    @property
    def failed(self) -> int:
        """Texts of which nothing is known."""
        return sum(row["error"] is not None for row in self.rows)

    @property
    def incomplete(self) -> int:
        """Texts for which a method or the certificate failed."""
        return sum(
            row["certificate_error"] is not None or any(one["error"] for one in row["methods"] or ())
            for row in self.rows
            if row["target"] == 0
        )

    @property
    def first_error(self) -> str | None:
        return next((row["error"] for row in self.rows if row["error"] is not None), None)


@contextmanager
def one_thread() -> Iterator[None]:
    """How many threads share a sum shows in its last digits: with one, rows are the same on any number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def work(subject: Subject, job: Job, shard: Shard, tick: Tick | None = None) -> Done:
    """Every text of a shard through the model and the job's methods. A text that fails is a row with its error.

    Texts of like length go through the model together. `tick` is told how many texts are done, as they are.
    """
    done = Done(shard.number, ())
    rows: dict[int, list[Row]] = {}
    waiting: list[tuple[int, Text]] = []
    for text in shard.texts:
        try:
            waiting.append((_length(subject, job, text), text))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on with the next text
            rows[text.number] = [_failed(text, error)]
    if tick is not None and rows:
        tick(len(rows))
    for batch in batches(waiting, job.batch, job.tokens):
        for text, capture, brief, seconds in _captured(subject, job, batch):
            if isinstance(capture, Exception):
                rows[text.number] = [_failed(text, capture)]
            else:
                try:
                    rows[text.number] = _rows(subject, job, text, capture, brief, seconds, done)
                except Exception as error:  # noqa: BLE001
                    rows[text.number] = [_failed(text, error)]
            if tick is not None:
                tick(1)
    return Done(shard.number, tuple(row for number in sorted(rows) for row in rows[number]), done.maps, done.tokens)


def learn(subject: Subject, text: Text) -> bool:
    """Have the model's wiring learnt from this text, if it can be read: a model that is not understood is refused.

    Whoever works on a part of a corpus learns from the same text, so that all know the same.
    """
    try:
        encoded = encode(subject.model, subject.tokenizer, _readable(text))
    except InputError:
        return False
    subject.anatomy(encoded)
    return True


def batches(waiting: Sequence[tuple[int, Text]], most: int, tokens: int) -> Iterator[list[Text]]:
    """Texts with their lengths, shortest first: at once no more than `most`, nor more `tokens` with their padding."""
    batch: list[Text] = []
    for length, text in sorted(waiting, key=lambda one: (one[0], one[1].number)):
        if batch and (len(batch) == most or (len(batch) + 1) * length > tokens):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def _length(subject: Subject, job: Job, text: Text) -> int:
    """How many tokens a text has; what was not read, or is too long, is refused."""
    assert subject.tokenizer is not None
    count = len(subject.tokenizer(_readable(text))["input_ids"])  # pyright: ignore[reportArgumentType]
    if count > job.max_tokens:
        raise InputError(f"the text has {count} tokens, and {job.max_tokens} are allowed: shorten or split it")
    return count


def _readable(text: Text) -> str:
    if text.error is not None:
        raise InputError(text.error)
    if len(text.text) > CHARACTERS:
        raise InputError(f"the text has {len(text.text)} characters; expected {CHARACTERS} at most: split it")
    return text.text


def _captured(
    subject: Subject, job: Job, batch: list[Text]
) -> Iterator[tuple[Text, Capture | Exception, BriefCertificate | Exception | None, float]]:
    """A capture of each text, what its values say if that is asked for, and the seconds both took.

    Where a batch fails each text goes alone.
    """
    start = perf_counter()
    try:
        found = subject.capture([text.text for text in batch])
        assert isinstance(found, list)
    except Exception as error:  # noqa: BLE001 - one of them is the reason, and the others are not to suffer
        if len(batch) == 1:
            yield batch[0], error, None, 0.0
            return
        for text in batch:
            yield from _captured(subject, job, [text])
        return
    said_by_values = _briefs(found) if job.certificate == "values" else [None] * len(found)
    each = (perf_counter() - start) / len(batch)
    found.reverse()
    for text, brief in zip(batch, said_by_values, strict=True):
        yield text, found.pop(), brief, each  # a capture that was worked on is not kept


def _briefs(captures: list[Capture]) -> list[BriefCertificate | Exception]:
    try:
        return [*brief_certificates(captures)]
    except Exception as error:  # noqa: BLE001
        return [error] if len(captures) == 1 else [one for capture in captures for one in _briefs([capture])]


def _rows(
    subject: Subject,
    job: Job,
    text: Text,
    capture: Capture,
    brief: BriefCertificate | Exception | None,
    seconds: float,
    done: Done,
) -> list[Row]:
    start = perf_counter()
    goal = find_target(capture, job.target)
    found: dict[str, Attribution] = {}
    errors: dict[str, str] = {}
    for name in job.methods:
        method, options = split_options(name)
        try:
            found[name] = explain(subject, capture, method, job.target, **options)
        except Exception as error:  # noqa: BLE001 - a method that fails is no reason to lose the others
            errors[name] = shortened(error_line(error))
    receipts = {name: one.receipt for name, one in found.items()}
    first: Row = {"layers": [row for name, one in found.items() for row in layers_of(capture, one, name)]}
    if job.certificate:
        try:
            certificate = certify(capture) if brief is None else brief
            if isinstance(certificate, Exception):
                raise certificate
            first["heads"] = heads_of(certificate)
            receipts["certificate"] = certificate.receipt
        except Exception as error:  # noqa: BLE001 - nor is a certificate
            first["certificate_error"] = shortened(error_line(error))
    first["checks"] = checks_of(receipts)
    places: Sequence[int | None] = (None,) if goal.pooled else goal.positions
    prediction = subject.output_name(goal.output) if goal.positions == capture.readout else None
    rows = [
        row_of(
            text,
            tokens=len(capture.tokens),
            prediction=None if prediction is None else plain_tokens([prediction])[0],
            target=number,
            position=place,
            token=None if place is None else plain_tokens([capture.tokens.pieces[place]])[0],
            methods=[
                method_of(found[name], name, number, place, job.top) | {"error": None}
                if name in found
                else {"method": name, "error": errors[name]}
                for name in job.methods
            ],
            agreement=agreement_of(found, number),
        )
        for number, place in enumerate(places)
    ]
    if job.maps:
        done.maps.update({f"{text.number}/{name}": one.scores.astype(np.float32) for name, one in found.items()})
        done.tokens[str(text.number)] = plain_tokens(capture.tokens.pieces)
    rows[0] |= {**first, "seconds": seconds + perf_counter() - start}
    return rows


def _failed(text: Text, error: Exception) -> Row:
    return row_of(text, error=shortened(text.error or error_line(error)))
