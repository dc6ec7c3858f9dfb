"""Methods on trained models: sums hold, and the papers' observations on such models can be seen."""

import numpy as np
import pytest

import thalweg as tw
from tests.real.models import minilm, reactions, smollm
from thalweg.capture.record import Capture

pytestmark = pytest.mark.real

SENTENCE = "The keys to the cabinet are on the table, and nobody knows who put them there last night."
REACTION = [12, 20, 31, 40, 22, 17, 13]


SUMMING_METHODS = [name for name, method in tw.list_methods().items() if method.traits.sums_to_logit]


@pytest.mark.parametrize("method", SUMMING_METHODS)
def test_parts_when_summed_then_are_the_logit_of_a_trained_model(method: str) -> None:
    for subject, text in ((smollm(), "The keys to the cabinet"), (reactions(), REACTION)):
        result = tw.explain(subject, text, method)
        assert result.receipt.figures["sum error"] < 1e-5
        assert np.isfinite(result.scores).all()


def test_alti_logit_when_the_verb_is_chosen_then_its_subject_comes_first() -> None:
    subject = smollm()
    result = tw.explain(subject, "The keys to the cabinet", "alti_logit")
    assert result.prediction == " are"
    assert result.top(1)[0][0] == "keys"


def test_alti_when_compared_with_rollout_then_gives_special_tokens_less() -> None:
    subject = minilm()
    capture = subject.capture(SENTENCE)
    special = np.array(capture.tokens.special)
    share = {
        method: tw.explain(subject, capture, method, "all").scores[:, special].sum(1).mean()
        for method in ("attention_rollout", "alti")
    }
    assert share["alti"] < 0.5 * share["attention_rollout"]


def test_mixing_when_measured_then_is_less_than_rollout_assumes() -> None:
    subject = minilm()
    capture = subject.capture(SENTENCE)
    figure = tw.explain(subject, capture, "norm_based", "all").receipt.figures["mean mixing ratio"]
    assert 0.05 < figure < 0.5


def test_flow_when_checked_with_scipy_then_is_the_same_on_trained_attention() -> None:
    subject = minilm()
    capture = subject.capture(SENTENCE)
    assert isinstance(capture, Capture)
    ours = tw.explain(subject, capture, "attention_flow", [1, 5, 9], normalise=False)
    theirs = tw.explain(subject, capture, "attention_flow", [1, 5, 9], normalise=False, solver="scipy")
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-6)
    assert ours.receipt.figures["flow gap"] < 1e-9
