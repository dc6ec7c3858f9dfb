"""Attention flow on real captures: bounded by rollout, and checked with SciPy's solver."""

import os
import subprocess
import sys

import numpy as np
import pytest

import thalweg as tw
from tests.families import BY_NAME

SENTENCE = "a gorgeous, witty, seductive movie."


def test_flow_when_rows_are_not_normalised_then_is_never_below_rollout(bundled: tw.Subject) -> None:
    capture = bundled.capture(SENTENCE)
    flow = tw.explain(bundled, capture, "attention_flow", "all", normalise=False)
    rolled = tw.explain(bundled, capture, "attention_rollout", "all")
    assert (flow.scores >= rolled.scores - 1e-6).all()
    assert flow.receipt.figures["flow gap"] < 1e-9
    checked = tw.explain(bundled, capture, "attention_flow", "all", normalise=False, solver="scipy")
    np.testing.assert_allclose(flow.scores, checked.scores, atol=1e-6)


def test_flow_when_only_the_first_layer_is_explained_then_is_its_capacities(bundled: tw.Subject) -> None:
    capture = bundled.capture(SENTENCE)
    flow = tw.explain(bundled, capture, "attention_flow", "all", layer=0, normalise=False)
    weights = capture.blocks[0].weights().mean(0).numpy()
    np.testing.assert_allclose(flow.scores, 0.5 * weights + 0.5 * np.eye(len(weights)), atol=1e-6)


def test_attention_flow_when_run_then_torch_keeps_its_number_of_threads():
    code = (
        "import sys, torch, thalweg as tw\n"
        "torch.set_num_threads(1)\n"  # numba.get_num_threads would set its own number
        "tw.explain(tw.load(), 'a gorgeous, witty movie.', 'attention_flow', -1)\n"
        "sys.exit(torch.get_num_threads() != 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "NUMBA_NUM_THREADS": "2"}).returncode == 0


def test_flow_when_raw_values_and_shares_are_requested_together_then_is_refused(bundled: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match=r"receptive_field.*normalise"):
        tw.explain(bundled, SENTENCE, "attention_flow", receptive_field=True, normalise=False)


@pytest.mark.parametrize("params", [{}, {"normalise": False}, {"receptive_field": True}])
def test_flow_when_no_block_updates_a_token_then_it_keeps_all_of_itself(params: dict[str, bool]) -> None:
    family = BY_NAME["bart"]
    subject = tw.load(family.build())
    capture = subject.capture_one(family.inputs(1, 5))
    prefix = capture.blocks[-1].queries  # the decoder's tokens, which the first encoder block leaves alone
    flow = tw.explain(subject, capture, "attention_flow", "all", layer=0, **params)
    np.testing.assert_array_equal(flow.scores[prefix], np.eye(len(capture.tokens))[prefix])
