"""What the methods give zero, and what that has an effect on: measured on every family."""

from dataclasses import dataclass

import numpy as np
import torch

import thalweg as tw
from tests.contracts.truths import largest, replaced, returning, run
from tests.families import Family
from thalweg.capture.record import Capture

METHODS = ("attention_rollout", "alti")


@dataclass(frozen=True)
class ZeroEffect:
    """Effects that must be zero, relative to the states where they were measured."""

    pairs: int  # of a source and a target whose share is exactly zero
    outside: float  # the largest effect of these sources on their targets
    frozen: float  # the largest effect of a token on another position, with all attention frozen


def zero_effect(family: Family, capture: Capture) -> ZeroEffect:
    """Replace tokens of the captured text where they have no share, with and without attention."""
    model, inputs = family.build(), family.inputs(1, 12)
    name = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    key = "decoder_state" if name == "decoder_input_ids" else "last_state"
    scores = np.sum([tw.explain(tw.load(model), capture, method, "all").scores for method in METHODS], 0)
    record = run(model, inputs)
    states = record.result[key]
    first = len(capture.tokens) - states.shape[1]  # of an encoder-decoder only the target text is replaced
    pairs, outside, frozen = 0, 0.0, 0.0
    for source in (3, 6, 10):
        changed = replaced(inputs, source, name)
        place = source if name in inputs else source - 1 + states.shape[1] - 16
        after = run(model, changed).result[key]
        zero = torch.from_numpy(scores[first:, first + place] == 0)
        pairs += int(zero.sum())
        if zero.any():
            outside = max(outside, largest(states[:, zero], after[:, zero]))
        still = run(model, changed, returning(output for _, _, output in record.calls)).result[key]
        frozen = max(frozen, largest(states, still, place))
    return ZeroEffect(pairs, outside, frozen)
