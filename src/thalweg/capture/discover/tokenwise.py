"""Check that nothing but attention mixes tokens, since otherwise the maps of the blocks do not chain.

A convolution, a recurrence or a linear attention mixes tokens unseen. Gradients reveal it: between two attention
blocks, the state of a token must not depend on any other token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.observe import Pass
from thalweg.capture.record import Role
from thalweg.errors import ProofError


@contextmanager
def embedding_leaves(model: Any) -> Iterator[list[Tensor]]:
    """Add a zero tensor to each embedding output inside the block; yields these zeros, to take gradients of."""
    leaves: list[Tensor] = []

    def add(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        leaves.append(torch.zeros_like(output, requires_grad=True))
        return output + leaves[-1]

    handle = model.get_input_embeddings().register_forward_hook(add)
    try:
        yield leaves
    finally:
        handle.remove()


def check_tokenwise(
    trace: Pass,
    blocks: Sequence[BlockWiring],
    roles: Sequence[Role],
    leaves: Sequence[Tensor],
    embedded: Sequence[Tensor],
) -> None:
    """Raise ProofError if tokens mix between embeddings, blocks, values or logits other than by attention.

    `leaves` are zeros added to the kernels' results, `embedded` those added to the embedding outputs.
    """
    tensors = trace.tensors
    before: dict[bool, tuple[str, Tensor]] = {}  # for encoder tokens and others: the place below, and its leaf
    if len(embedded) == 1:  # one text; in a speech model it is the decoder's
        before[False] = ("the embeddings", embedded[0])
    elif embedded:
        before = {True: ("the source's embeddings", embedded[0]), False: ("the target's embeddings", embedded[-1])}
    for number, (wiring, role) in enumerate(zip(blocks, roles, strict=True)):
        place = f"the attention block {wiring.attention!r}"
        encoder_keys = role in ("encoder", "cross")
        if encoder_keys in before:
            value = trace.calls[number][1].value[0]  # [kv_head key value_size]
            _check(value.transpose(0, 1).flatten(1), *before[encoder_keys], f"the values of {place}")
        if (role == "encoder") in before:
            name, leaf = before[role == "encoder"]
            state = tensors[wiring.residual]
            _check(state.reshape(-1, state.shape[-1]), name, leaf, place)
        before[role == "encoder"] = (place, leaves[number])
    logits = trace.result.get("logits") if hasattr(trace.result, "get") else None
    if logits is not None and logits.dim() == 3:
        _check(logits[0], *before[False], "the logits")


def _check(state: Tensor, below: str, leaf: Tensor, above: str) -> None:
    """The state of a token in the middle may depend on the leaf at that token only."""
    if leaf.shape[1] != len(state):
        return  # positions that do not correspond to tokens
    token = len(state) // 2
    ramp = torch.linspace(0.5, 1.5, state.shape[-1], dtype=state.dtype, device=state.device)
    (slope,) = torch.autograd.grad(state[token] @ ramp, leaf, retain_graph=True, allow_unused=True)
    if slope is None:
        return
    reached = slope[0].flatten(1).abs().sum(1).nonzero().flatten().tolist()
    if reached not in ([token], []):
        raise ProofError(
            f"between {below} and {above}, tokens are mixed by something that is not attention (such as a convolution "
            "or a recurrence), which contributions would miss; this model is not supported"
        )
