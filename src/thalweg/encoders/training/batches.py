"""Texts of similar length together, so that little is padded, and what a model says to them."""

import random
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.progress import progress

BLOCK = 8192  # texts that are sorted by length at once
PREDICTED = 4096  # padded tokens that run at once where no gradients are kept


def batches(ids: Sequence[Sequence[int]], tokens: int, chance: random.Random) -> list[list[int]]:
    """Row numbers of batches of similar length, each of at most `tokens` padded tokens, or of one text."""
    order = chance.sample(range(len(ids)), len(ids))
    found: list[list[int]] = []
    for start in range(0, len(order), BLOCK):
        found.append([])
        for row in sorted(order[start : start + BLOCK], key=lambda row: len(ids[row])):
            if found[-1] and (len(found[-1]) + 1) * len(ids[row]) > tokens:
                found.append([])
            found[-1].append(row)
    return chance.sample(found, len(found))


def logits_of(model: nn.Module, ids: Sequence[Sequence[int]], pad: int) -> Float[Tensor, "text label"]:
    """The logits of one batch, padded to its longest text."""
    longest = max(map(len, ids))
    padded = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in ids])
    counts = torch.tensor([len(row) for row in ids])
    mask = (torch.arange(longest)[None] < counts[:, None]).long()  # [text position]
    device: Any = next(model.parameters()).device
    return model(input_ids=padded.to(device), attention_mask=mask.to(device)).logits


@torch.no_grad()
def predict(
    model: nn.Module, ids: Sequence[Sequence[int]], pad: int, label: str | None = None
) -> Float[Tensor, "text label"]:
    """The logits of all texts, with the model in evaluation mode and afterwards in the mode it was in.

    A label asks for a progress bar, of which there can be one at a time.
    """
    mode = model.training
    model.eval()
    rows: list[int] = []
    parts: list[Tensor] = []
    try:
        with progress(label) if label else nullcontext(_silent) as report:
            for some in batches(ids, PREDICTED, random.Random(0)):
                parts.append(logits_of(model, [ids[row] for row in some], pad).float().cpu())
                rows += some
                report(len(rows), len(ids))
    finally:
        model.train(mode)
    return torch.cat(parts)[torch.tensor(rows).argsort()]


def _silent(done: int, total: int) -> None:
    """Report to nobody."""
