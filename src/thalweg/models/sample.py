"""A short example cut from a batch, from which a model's wiring is learnt."""

import torch
from torch import Tensor

SAMPLE_TOKENS = 8


def short_sample(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The first example, resized to `SAMPLE_TOKENS` tokens; pixels and sound keep their size."""
    real = {
        side: int(inputs[f"{side}attention_mask"][0].sum())
        for side in ("", "decoder_")
        if f"{side}attention_mask" in inputs
    }
    sample = {}
    for name, value in inputs.items():
        if value.is_floating_point() or value.dim() != 2:
            sample[name] = value[:1]
        elif "mask" in name:
            sample[name] = value.new_ones((1, SAMPLE_TOKENS))
        else:
            side = "decoder_" if name.startswith("decoder_") else ""
            sample[name] = _resized(value[:1, : real.get(side)], distinct="input_ids" in name)
    return sample


def _resized(row: Tensor, distinct: bool) -> Tensor:
    """Cut or repeat the tokens between the first and the last, which may be special."""
    inner = row[:, 1:-1] if row.shape[1] > 2 else row[:, :1]
    places = torch.arange(SAMPLE_TOKENS - 2, device=row.device)
    filled = inner[:, places % inner.shape[1]]
    if distinct:  # a model without positions could not tell equal tokens apart
        filled = (filled - places // inner.shape[1]).abs()
    return torch.cat([row[:, :1], filled, row[:, -1:]], 1)
