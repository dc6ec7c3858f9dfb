"""Jobs: defaults, plain values, and options that are refused before any text is read."""

import json

import pytest

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.corpus.job import DEFAULT_MAX_TOKENS, Job, check_positive, make_job
from thalweg.models.encode import position_limit


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


def test_job_when_max_tokens_is_not_set_then_is_that_of_the_model_or_the_default(subject: tw.Subject) -> None:
    limit = position_limit(subject.model)
    assert limit is not None
    assert make_job(subject, ["alti"]).max_tokens == min(DEFAULT_MAX_TOKENS, limit)
    assert make_job(tiny_subject("t5"), ["alti"]).max_tokens == DEFAULT_MAX_TOKENS  # relative positions have no limit


def test_identity_when_written_as_json_then_is_read_back_the_same(subject: tw.Subject) -> None:
    job = make_job(subject, ["alti:measure=l2"], (0, 2), certificate=None, top=3, max_tokens=20, batch=4)
    assert isinstance(job, Job)
    identity = job.identity()
    assert json.loads(json.dumps(identity)) == identity
    assert (identity["methods"], identity["target"], identity["top"]) == (["alti:measure=l2"], [0, 2], 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["alchemy"]}, "unknown method 'alchemy'"),
        ({"methods": ["alti", "alti"]}, "different methods"),
        ({"methods": "alti"}, "list of .*'alti'"),
        ({"methods": ["alti:depth=3"]}, "'depth'"),
        ({"methods": ["alti:layer"]}, "alti:layer"),
        ({"methods": [], "certificate": None}, "method or a certificate"),
        ({"methods": ["alti"], "top": 0}, "top .*at least 1.*0"),
        ({"methods": ["alti"], "batch": 0}, "batch .*at least 1.*0"),
        ({"methods": ["alti"], "max_tokens": 100_000}, "max_tokens .*positions.*100000"),
    ],
)
def test_job_when_an_option_is_wrong_then_is_refused(subject: tw.Subject, options: dict, message: str) -> None:
    with pytest.raises(tw.InputError, match=message):
        make_job(subject, **options)


def test_job_when_there_is_no_tokenizer_then_is_refused(subject: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="needs a tokenizer"):
        make_job(tw.load(subject.model), ["alti"])


def test_check_positive_when_a_value_is_below_one_then_names_it() -> None:
    check_positive(first=1, second=None)
    with pytest.raises(tw.InputError, match="second must be at least 1, got -2"):
        check_positive(first=1, second=-2)
