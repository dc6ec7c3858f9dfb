"""Batches of texts with similar length, and captures of texts, some of which fail."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.corpus.captures import CapturedText, FailedText, capture_texts, make_batches, readable_text
from thalweg.corpus.job import MAX_BATCH_TOKENS, MAX_TEXT_CHARACTERS, make_job
from thalweg.corpus.shards import CorpusText
from thalweg.identifiability.brief_certificate import BriefCertificate


def texts_of(*contents: str) -> list[CorpusText]:
    return [CorpusText(number, number + 1, content) for number, content in enumerate(contents)]


@given(st.lists(st.integers(1, 700), max_size=40), st.integers(1, 9))
def test_batches_when_made_then_hold_each_text_once_within_the_limits(lengths: list[int], max_texts: int) -> None:
    entries = [(length, CorpusText(n, n, "x")) for n, length in enumerate(lengths)]
    batches = list(make_batches(entries, max_texts, MAX_BATCH_TOKENS))
    assert sorted(text.number for batch in batches for text in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[text.number] for text in batch)
        assert len(batch) <= max_texts
        assert len(batch) == 1 or len(batch) * longest <= MAX_BATCH_TOKENS
    order = [lengths[text.number] for batch in batches for text in batch]
    assert order == sorted(order)


def test_captures_when_texts_differ_in_length_then_come_shortest_first_after_failures() -> None:
    subject = tiny_subject("bert")
    texts = texts_of("the old dog runs", "a cat", "the " * 30, "the dog")
    outcomes = list(capture_texts(subject, make_job(subject, ["alti"], max_tokens=20), texts))
    assert [outcome.text.number for outcome in outcomes] == [2, 1, 3, 0]
    failed, *captured = outcomes
    assert isinstance(failed, FailedText)
    assert "32 tokens" in str(failed.error) and "20" in str(failed.error)
    for outcome in captured:
        assert isinstance(outcome, CapturedText)
        assert isinstance(outcome.brief, BriefCertificate)
        assert len(outcome.capture.tokens) == len(outcome.text.text.split()) + 2


def test_captures_when_no_certificate_by_values_is_needed_then_have_none() -> None:
    subject = tiny_subject("bert")
    for certificate in ("full", None):
        (outcome,) = capture_texts(subject, make_job(subject, ["alti"], certificate=certificate), texts_of("a cat"))
        assert isinstance(outcome, CapturedText)
        assert outcome.brief is None


def test_captures_when_the_model_fails_on_a_text_then_the_rest_of_its_batch_is_captured() -> None:
    subject = tiny_subject("bert")
    assert subject.tokenizer is not None
    with torch.no_grad():
        next(subject.model.get_input_embeddings().parameters())[subject.tokenizer.get_vocab()["cat"]] = torch.nan
    texts = texts_of("the old dog runs", "the old cat runs", "the bad dog runs")
    outcomes = list(capture_texts(subject, make_job(subject, ["alti"]), texts))
    assert [type(outcome) for outcome in outcomes] == [CapturedText, FailedText, CapturedText]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CorpusText(0, 7, error="line 7 is broken"), "line 7 is broken"),
        (CorpusText(0, 7, "x" * (MAX_TEXT_CHARACTERS + 1)), f"{MAX_TEXT_CHARACTERS + 1} characters"),
    ],
)
def test_text_when_it_cannot_be_tokenized_then_is_refused(text: CorpusText, message: str) -> None:
    with pytest.raises(tw.InputError, match=message):
        readable_text(text)
