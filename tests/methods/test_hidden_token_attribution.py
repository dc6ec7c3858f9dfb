"""Hidden token attribution: maps of all layers, half precision, and wrong parameters."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

import thalweg as tw
from tests.families import BY_NAME, VOCABULARY, randomise
from tests.tiny import SENTENCE, tiny_subject


def test_method_when_all_positions_are_explained_then_has_a_map_for_every_layer(bundled: tw.Subject) -> None:
    text = "a witty movie."
    result = tw.explain(bundled, text, "hidden_token_attribution", "all")
    assert result.per_layer is not None
    assert len(result.per_layer) == 4
    np.testing.assert_allclose(result.per_layer[-1], result.scores, atol=1e-6)
    np.testing.assert_allclose(result.per_layer.sum(-1), 1, atol=1e-5)
    assert result.receipt.figures["largest relative error bar"] <= 0.05
    assert result.errors is not None
    assert result.errors.shape == result.scores.shape
    exact = tw.explain(bundled, text, "hidden_token_attribution", 1, rtol=None)
    np.testing.assert_allclose(exact.scores[0], result.scores[1], rtol=0.05)
    own = tw.mixing(bundled, text, methods=["hidden_token_attribution"]).own["hidden_token_attribution"]
    assert (np.diff(own) < 0).all()  # the deeper, the less a token keeps of itself


def test_method_when_the_model_is_in_half_precision_then_says_so() -> None:
    family = BY_NAME["bert"]
    model: Any = family.build()
    subject = tw.load(model.to(torch.bfloat16))
    result = tw.explain(subject, family.inputs(1, 5), "hidden_token_attribution", 0, rtol=0.2)
    assert any("bfloat16" in sentence for sentence in result.receipt.assumed)
    full = tw.explain(tw.load(family.build()), family.inputs(1, 5), "hidden_token_attribution", 0, rtol=None)
    np.testing.assert_allclose(result.scores, full.scores, rtol=0.3)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"rtol": 0.0}, "rtol.*between 0 and 1.*0.0"),
        ({"rtol": 2.0}, "rtol.*between 0 and 1.*2.0"),
        ({"norm": "spectral"}, "cannot be sketched"),
        ({"norm": "nuclear"}, "frobenius or spectral"),
        ({"layer": 9}, "layer.*9"),
    ],
)
def test_parameter_when_wrong_then_the_error_names_it(params: dict, words: str) -> None:
    with pytest.raises(tw.InputError, match=words):
        tw.explain(tiny_subject(), SENTENCE, "hidden_token_attribution", 0, **params)


@pytest.mark.parametrize("rtol", [0.05, None])
@pytest.mark.parametrize("target", [0, "all"])
def test_method_when_no_state_depends_on_any_token_then_rows_stay_with_their_own(
    target: Any, rtol: float | None
) -> None:
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=2, num_attention_heads=1, intermediate_size=4, num_hidden_layers=2
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        randomise(model, torch.Generator().manual_seed(0))
    subject = tw.load(model)  # a norm of two numbers returns 1 and -1, whatever they are
    result = tw.explain(subject, BY_NAME["bert"].inputs(1, 5), "hidden_token_attribution", target, rtol=rtol)
    np.testing.assert_allclose(result.scores, np.eye(5)[list(result.positions)])
    assert result.receipt.figures["rows without any derivative"] >= 1
