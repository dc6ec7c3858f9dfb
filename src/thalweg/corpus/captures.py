"""Captures of the texts of a shard, taken in batches of texts with similar length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from thalweg.capture.record import Capture
from thalweg.corpus.job import MAX_TEXT_CHARACTERS, Job
from thalweg.corpus.shards import CorpusText
from thalweg.errors import InputError
from thalweg.identifiability.brief_certificate import BriefCertificate, brief_certificates
from thalweg.models.encode import position_limit
from thalweg.models.subject import Subject


@dataclass(frozen=True, eq=False)
class CapturedText:
    """A text with its capture, and the seconds they took.

    `brief` is the certificate by values, or the error that prevented it; None unless the job asks for that kind.
    """

    text: CorpusText
    capture: Capture
    brief: BriefCertificate | Exception | None
    seconds: float


@dataclass(frozen=True, eq=False)
class FailedText:
    """A text that could not be captured, and why."""

    text: CorpusText
    error: Exception


def capture_texts(subject: Subject, job: Job, texts: Sequence[CorpusText]) -> Iterator[CapturedText | FailedText]:
    """Capture every text; those that cannot be tokenized come first, the others by length."""
    lengths: list[tuple[int, CorpusText]] = []
    for text in texts:
        try:
            lengths.append((_token_count(subject, job, text), text))
        except Exception as error:  # noqa: BLE001 - one bad text must not end the run
            yield FailedText(text, error)
    for batch in make_batches(lengths, job.batch, job.batch_tokens):
        yield from _capture_batch(subject, job, batch)


def make_batches(
    lengths: Sequence[tuple[int, CorpusText]], max_texts: int, max_tokens: int
) -> Iterator[list[CorpusText]]:
    """Group texts by length, shortest first; `max_tokens` counts padding, and a longer text is a batch of its own."""
    batch: list[CorpusText] = []
    for length, text in sorted(lengths, key=lambda entry: (entry[0], entry[1].number)):
        if batch and (len(batch) == max_texts or (len(batch) + 1) * length > max_tokens):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def readable_text(text: CorpusText) -> str:
    """The content of a text; raises if its line could not be read or is too long to tokenize."""
    if text.error is not None:
        raise InputError(text.error)
    if len(text.text) > MAX_TEXT_CHARACTERS:
        raise InputError(f"text has {len(text.text)} characters, expected at most {MAX_TEXT_CHARACTERS}; split it")
    return text.text


def _token_count(subject: Subject, job: Job, text: CorpusText) -> int:
    assert subject.tokenizer is not None
    count = len(subject.tokenizer(readable_text(text))["input_ids"])  # pyright: ignore[reportArgumentType]
    if subject.truncate:
        count = min(count, position_limit(subject.model) or count)
    if count > job.max_tokens:
        raise InputError(f"text has {count} tokens, expected at most {job.max_tokens}; shorten or split it")
    return count


def _capture_batch(subject: Subject, job: Job, batch: list[CorpusText]) -> Iterator[CapturedText | FailedText]:
    """Capture a batch; if it fails, capture each of its texts alone."""
    start = perf_counter()
    try:
        captures = subject.capture([text.text for text in batch])
        assert isinstance(captures, list)
    except Exception as error:  # noqa: BLE001 - a single text may be the cause
        if len(batch) == 1:
            yield FailedText(batch[0], error)
            return
        for text in batch:
            yield from _capture_batch(subject, job, [text])
        return
    certificates = _briefs(captures) if job.certificate == "values" else [None] * len(captures)
    seconds = (perf_counter() - start) / len(batch)
    captures.reverse()
    for text, brief in zip(batch, certificates, strict=True):
        yield CapturedText(text, captures.pop(), brief, seconds)  # popped, so that it is freed once processed


def _briefs(captures: list[Capture]) -> list[BriefCertificate | Exception]:
    try:
        return [*brief_certificates(captures)]
    except Exception as error:  # noqa: BLE001 - a single text may be the cause
        return [error] if len(captures) == 1 else [brief for capture in captures for brief in _briefs([capture])]
