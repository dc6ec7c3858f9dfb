"""ALTI-Logit where attention adds nothing, and where a foil is chosen."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME


def test_alti_logit_when_values_are_zero_then_the_logit_belongs_to_no_token() -> None:
    family = BY_NAME["llama"]
    model = family.build()
    subject = tw.load(model)
    subject.capture(family.inputs(1, 7))  # learns the wiring while values are not zero
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "v_proj" in name:
                parameter.zero_()
    result = tw.explain(subject, family.inputs(1, 7), "alti_logit", -1)
    figures = result.receipt.figures
    assert np.abs(result.scores).max() == 0
    apart = figures["mlps"] + figures["biases"] + figures["own embedding"]
    assert apart == pytest.approx(figures["logit"], rel=1e-5)


def test_alti_logit_when_output_and_foil_are_exchanged_then_scores_change_their_sign() -> None:
    subject, inputs = tw.load(BY_NAME["gpt2"].build()), BY_NAME["gpt2"].inputs(1, 7)
    capture = subject.capture(inputs)
    first, second = (
        tw.explain(subject, capture, "alti_logit", -1, output=output, foil=foil).scores  # pyright: ignore[reportArgumentType]
        for output, foil in ((5, 9), (9, 5))
    )
    np.testing.assert_allclose(first, -second, atol=1e-6)
