"""Gradients of an output with respect to what each attention head returned."""

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.attention import adding_leaves
from thalweg.capture.record import Attention, Capture
from thalweg.capture.target import Target
from thalweg.errors import InputError

Slopes = Float[Tensor, "query head value_size"]


def head_slopes(capture: Capture, target: Target) -> list[Slopes]:
    """The gradient of the target's output with respect to every block's head outputs, in one extra pass.

    It gives the gradient of any attention weight, whatever kernel computed the weights: ∂f/∂A_ij = ⟨∂f/∂o_i, v_j⟩.
    """
    if capture.logits is None or target.output is None:
        raise InputError(
            "gradients need one output to differentiate: a model with logits, and a single prediction or position "
            "as the target"
        )
    attend, leaves = adding_leaves()
    with torch.enable_grad():
        logits = capture.replay(attend).result["logits"][0]
        if logits.dim() == 2:  # [position output]
            before = len(capture.tokens) - len(capture.logits)
            logits = logits[target.positions[-1] - before]
        slopes = torch.autograd.grad(logits[target.output], leaves, allow_unused=True)
    return [
        torch.zeros_like(block.attention.output) if slope is None else slope[0].detach()
        for slope, block in zip(slopes, capture.blocks, strict=True)
    ]


def gradient_weights(attention: Attention, slopes: Slopes, rows: slice, weights: HeadMaps) -> HeadMaps:
    """(A ⊙ ∂f/∂A)⁺ of a block of rows: attention that raises the output (Chefer 2021; Azarkhalili 2025)."""
    values = attention.values()
    gradient = slopes[rows].to(values.dtype).transpose(0, 1) @ values.mT  # [head row key]
    return (weights * gradient).clamp_min(0)
