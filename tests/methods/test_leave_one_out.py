"""leave_one_out: the effect of each removal, by any operator."""

import numpy as np
import pytest

import thalweg as tw
from tests.faithfulness.cases import key_word_case, scores_of, subject_of, tiny_case
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.effects import single_effects


def test_leave_one_out_when_one_word_decides_then_only_it_has_a_score() -> None:
    assert scores_of("leave_one_out", key_word_case()) == pytest.approx([0, 0, 0.6, 0, 0, 0])


def test_leave_one_out_when_an_operator_is_set_then_uses_it() -> None:
    case = tiny_case("bert")
    scores = scores_of("leave_one_out:operator=mask", case)
    assert scores[list(case.removable)] == pytest.approx(single_effects(case, "mask"), abs=1e-6)
    assert (scores != scores_of("leave_one_out", case)).any()


@pytest.mark.parametrize("operator", OPERATORS)
def test_leave_one_out_when_several_positions_are_explained_then_each_row_is_that_of_its_position(
    operator: Operator,
) -> None:
    subject = subject_of("gpt2")
    capture = subject.capture("the key is the key")
    together = tw.explain(subject, capture, "leave_one_out", "all", operator=operator).scores
    for position in range(len(capture.tokens)):
        alone = tw.explain(subject, capture, "leave_one_out", position, operator=operator).scores[0]
        assert together[position] == pytest.approx(alone, abs=1e-6)
    assert np.abs(together[3, :3]).min() > 1e-7
    assert np.abs(np.diag(together)).max() == 0


@pytest.mark.parametrize(
    ("operator", "sentence"),
    [("delete", "later tokens move up"), ("mask", "replaced by [MASK]"), ("pad", "attention does not see")],
)
def test_leave_one_out_when_explained_then_the_receipt_names_the_operator(operator: str, sentence: str) -> None:
    receipt = tw.explain(subject_of("bert"), "the old dog", "leave_one_out", operator=operator).receipt
    assert any(sentence in assumption for assumption in receipt.assumed)
