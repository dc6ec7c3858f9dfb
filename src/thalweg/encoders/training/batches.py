"""Batches of texts of similar length, which need little padding, and a model's logits for them."""

import random
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.progress import progress

SORTED_TEXTS = 8192  # sorted by length at a time
PREDICTION_TOKENS = 4096  # padded tokens per batch without gradients


def batches(ids: Sequence[Sequence[int]], tokens: int, rng: random.Random) -> list[list[int]]:
    """Row numbers of batches of similar length, each of at most `tokens` padded tokens, or of one text."""
    order = rng.sample(range(len(ids)), len(ids))
    groups: list[list[int]] = []
    for start in range(0, len(order), SORTED_TEXTS):
        groups.append([])
        for row in sorted(order[start : start + SORTED_TEXTS], key=lambda row: len(ids[row])):
            if groups[-1] and (len(groups[-1]) + 1) * len(ids[row]) > tokens:
                groups.append([])
            groups[-1].append(row)
    return rng.sample(groups, len(groups))


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
    """The logits of all texts in evaluation mode; the model's mode is restored afterwards.

    A `label` shows a progress bar.
    """
    mode = model.training
    model.eval()
    rows: list[int] = []
    logits: list[Tensor] = []
    try:
        with progress(label) if label else nullcontext(_no_report) as report:
            for batch in batches(ids, PREDICTION_TOKENS, random.Random(0)):
                logits.append(logits_of(model, [ids[row] for row in batch], pad).float().cpu())
                rows += batch
                report(len(rows), len(ids))
    finally:
        model.train(mode)
    return torch.cat(logits)[torch.tensor(rows).argsort()]


def _no_report(done: int, total: int) -> None:
    """Ignore progress."""
