"""Effects of single removals."""

import numpy as np
import pytest

from tests.faithfulness.cases import Additive, additive_case, key_word_case
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.effects import single_effects


@pytest.mark.parametrize("operator", OPERATORS)
def test_effects_when_one_word_decides_then_only_it_has_one(operator: Operator) -> None:
    assert single_effects(key_word_case(), operator) == pytest.approx([0, 0.6, 0, 0])


def test_effects_when_padded_in_an_additive_model_then_have_the_sign_of_the_weights() -> None:
    case = additive_case()
    model = case.scorer.model
    assert isinstance(model, Additive)
    weights = model.weights.detach().numpy()
    own = [weights[case.original.ids[position]] for position in case.removable]
    assert (np.sign(single_effects(case, "pad")) == np.sign(own)).all()
