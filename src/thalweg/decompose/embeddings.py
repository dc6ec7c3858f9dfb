"""Answers as a function of the embedding output, and their gradients, inside the model's own forward pass.

`inputs_embeds` enters the model earlier: positions and the embedding norm are still applied to it, so passing an
embedding output there would embed it twice. Here the states are replaced where the first block reads them, after
capture has verified that the block reads nothing else.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import StopPassError, Tap
from thalweg.capture.record import Block, Capture
from thalweg.decompose.answers import TargetAnswer
from thalweg.errors import ModelError

States = Float[Tensor, "copy token width"]
Reduction = Literal["sum", "l2", "mean_abs"]
BATCH_TOKENS = 4096  # of copies that run at once


@dataclass(eq=False)
class _Entry:
    """A handler that continues with other states in place of the embedding output, or records it and stops."""

    capture: Capture
    states: States | None = None
    recorded: list[Tensor] = field(default_factory=list)
    tokens: dict[Tap, slice] = field(default_factory=dict)

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        entries = anatomy.states.entries
        if fixed := set(entries) & anatomy.states.fixed:
            raise ModelError(f"the {min(fixed, key=str)} is read at other places too: a gradient would be incomplete")
        self.tokens = {tap: block.queries for tap, block in zip(entries, _first_blocks(self.capture), strict=True)}
        return set(entries)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        tokens = self.tokens[tap]
        count = tokens.stop - tokens.start
        if self.states is None:
            self.recorded.append(value.detach().reshape(-1, value.shape[-1])[:count].clone())
            if len(self.recorded) == len(self.tokens):
                raise StopPassError
            return value
        rows = value.reshape(len(self.states), -1, value.shape[-1])  # [copy position width], padding included
        return torch.cat([self.states[:, tokens].to(value.dtype), rows[:, count:]], 1).view(value.shape)


def _first_blocks(capture: Capture) -> list[Block]:
    """The first block of each sequence: of the text, or of source and target of an encoder-decoder."""
    firsts = {block.queries.start: block for block in reversed(capture.blocks)}
    return [firsts[start] for start in sorted(firsts)]


def embedding_output(capture: Capture) -> Float[Tensor, "token width"]:
    """The states that the first block of each sequence reads."""
    return torch.cat([block.input for block in _first_blocks(capture)])


def blank_output(capture: Capture, positions: Collection[int]) -> tuple[Float[Tensor, "token width"], str]:
    """The embedding output with blanks at these positions, and what a blank is in words.

    A blank is the mask or unknown token, or a state of zeros if the model reads no text or has no such token.
    """
    rerun = capture.rerun
    if rerun is None or rerun.blanks.mask is None or None in capture.tokens.ids:
        states = embedding_output(capture).clone()
        states[list(positions)] = 0
        return states, "a state of zeros, since there is no mask or unknown token"
    inputs, handler = dict(rerun.inputs), _Entry(capture)
    for name, block in zip(("input_ids", "decoder_input_ids"), _first_blocks(capture), strict=False):
        start, stop = block.queries.start, block.queries.stop
        inputs[name] = inputs[name].clone()
        inputs[name][0, [position - start for position in positions if start <= position < stop]] = rerun.blanks.mask
    with torch.no_grad():
        capture.replay(handler, inputs=inputs)
    return torch.cat(handler.recorded), f"the token {rerun.blanks.label}"


def answers_at(capture: Capture, answers: Sequence[TargetAnswer], states: States) -> Float[Tensor, "answer copy"]:
    """The answers when the first block reads these states; differentiable."""
    logits = capture.replay(_Entry(capture, states), copies=len(states)).result["logits"]
    return torch.stack([answer.of(logits) for answer in answers])


def gradients(
    capture: Capture, answers: Sequence[TargetAnswer]
) -> tuple[Float[Tensor, " answer"], Float[Tensor, "answer token width"]]:
    """(answers, their gradients at the embedding output), in one forward pass and one backward pass per answer."""
    states = embedding_output(capture)[None].detach().clone().requires_grad_()
    with torch.enable_grad():
        values = answers_at(capture, answers, states)[:, 0]
        slopes = [torch.autograd.grad(value, states, retain_graph=True)[0][0] for value in values]
    return values.detach(), torch.stack(slopes)


def copies_at_once(capture: Capture) -> int:
    """The number of copies of the text that run as one batch."""
    return max(1, BATCH_TOKENS // len(capture.tokens))


def reduced(parts: Float[Tensor, "*rest width"], reduction: Reduction) -> Float[Tensor, "*rest"]:
    """One number per vector: the signed sum, the L2 norm or the mean absolute value of its components."""
    exact = parts.double()
    if reduction == "sum":
        return exact.sum(-1)
    return exact.norm(dim=-1) if reduction == "l2" else exact.abs().mean(-1)
