"""Cases: the answer, the removable tokens, and models and texts that have none."""

from dataclasses import replace

import numpy as np
import pytest

import thalweg as tw
from tests.encoders.training.corpus import tiny_bert
from tests.faithfulness.cases import ranking_of, subject_of, tiny_case
from tests.tiny import tiny_subject, wordpiece
from thalweg.faithfulness.case import check_subject, make_case
from thalweg.faithfulness.examples import BenchExample


def test_removable_when_a_language_model_then_excludes_special_tokens_and_the_answer_position() -> None:
    case = tiny_case("gpt2")
    assert case.removable == tuple(range(len(case.original) - 1))
    masked = tiny_case("electra")
    assert not {0, masked.original.answer_position, len(masked.original) - 1} & set(masked.removable)


def test_model_when_it_has_a_single_logit_then_is_refused() -> None:
    """A softmax over one number is always one, and over positions it is something else."""
    subject = tw.load(tiny_bert(labels=("one",)).eval(), wordpiece())
    with pytest.raises(tw.InputError, match="a single logit"):
        make_case(subject, BenchExample("the old dog"))


def test_model_when_it_has_no_tokenizer_or_another_task_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="has no tokenizer"):
        check_subject(replace(subject_of("bert"), tokenizer=None))
    with pytest.raises(tw.InputError, match=r"seq2seq.*supports classifiers"):
        check_subject(tiny_subject("t5"))


def test_answer_when_two_words_are_compared_then_is_the_difference_of_their_probabilities() -> None:
    case = make_case(subject_of("gpt2"), BenchExample("the key", good="the", bad="key"))
    assert case.capture.logits is not None
    probabilities = case.capture.logits[-1].double().softmax(-1)
    output, foil = case.answer.output, case.answer.foil
    assert foil is not None
    assert float(case.scorer([case.original])[0]) == pytest.approx(
        float(probabilities[output] - probabilities[foil]), abs=1e-6
    )
    assert case.logit_params() == {"output": output, "foil": foil}
    assert tiny_case("gpt2").logit_params() == {}


def test_masked_model_when_a_word_is_named_then_a_mask_takes_its_place_before_the_rest() -> None:
    case = make_case(subject_of("electra"), BenchExample("the dog", good="is", bad="are", rest="old ."))
    assert case.capture.tokens.pieces == ("[CLS]", "the", "dog", "[MASK]", "old", ".", "[SEP]")
    assert case.original.answer_position == 3


@pytest.mark.parametrize(
    ("family", "example", "max_tokens", "message"),
    [
        ("bert", BenchExample("the old dog"), 4, "5 tokens, more than max_tokens=4"),
        ("electra", BenchExample("the [MASK] is [MASK]"), None, "2 mask tokens, expected 1"),
        ("electra", BenchExample("the dog", good="unhappy", bad="is"), None, "'unhappy' is not a single token"),
        ("gpt2", BenchExample("the", good="is", bad="runs"), None, "'is' and 'runs' start with the same token"),
    ],
)
def test_example_when_it_has_no_single_answer_then_is_refused(
    family: str, example: BenchExample, max_tokens: int | None, message: str
) -> None:
    with pytest.raises(tw.InputError, match=message):
        make_case(subject_of(family), example, max_tokens=max_tokens)


def test_rationale_when_spans_overlap_tokens_then_holds_their_positions() -> None:
    text = "the old dog sees"
    case = make_case(subject_of("bert"), BenchExample(text, rationale=((5, 9),)))
    assert case.rationale == {2, 3}
    assert case.positions_in(((0, 3), (12, 13))) == [1, 4]
    assert make_case(subject_of("bert"), BenchExample(text, rationale=((0, 16),))).rationale == set()
    assert make_case(subject_of("bert"), BenchExample(text)).rationale == set()


def test_order_when_scores_tie_then_is_that_of_the_text_and_negative_scores_come_last() -> None:
    case = make_case(subject_of("bert"), BenchExample("the old dog sees"))
    assert ranking_of(case, np.array([0.0, -1.0, 2.0, 0.0])).order == [3, 1, 4, 2]
