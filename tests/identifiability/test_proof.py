"""Proofs: the model really runs with the replaced attention."""

import numpy as np

from tests.architectures import captured
from tests.families import BY_NAME
from thalweg.identifiability.proof import prove


def test_prove_when_the_map_changes_the_output_then_the_model_says_so() -> None:
    capture = captured(BY_NAME["bert"])
    weights = capture.blocks[0].weights()[0]
    reversed_rows = weights.flip(-1)
    proof = prove(capture, 0, 0, {"original": weights, "reversed": reversed_rows})
    assert proof.moved["original"] <= proof.allowed
    assert proof.moved["reversed"] > 10 * proof.allowed
    assert capture.logits is not None
    np.testing.assert_allclose(proof.output["original"], capture.logits, atol=1e-5)
    assert abs(proof.output["reversed"] - proof.output["original"]).max() > 1e-4
