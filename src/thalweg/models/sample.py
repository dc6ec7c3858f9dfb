"""Short examples cut from a batch, from which a model's wiring is learnt and audited."""

import torch
from torch import Tensor

SAMPLE_TOKENS = 8
AUDIT_TOKENS = 64


def short_sample(inputs: dict[str, Tensor], most: int = SAMPLE_TOKENS) -> dict[str, Tensor]:
    """The first example, resized to between `SAMPLE_TOKENS` and `most` tokens; pixels and sound keep their size."""
    real = {
        side: int(inputs[f"{side}attention_mask"][0].sum())
        for side in ("", "decoder_")
        if f"{side}attention_mask" in inputs
    }
    sample = {}
    for name, value in inputs.items():
        if value.is_floating_point() or value.dim() != 2:
            sample[name] = value[:1]
            continue
        side = "decoder_" if name.startswith("decoder_") else ""
        row = value[:1, : real.get(side)]
        count = min(max(row.shape[1], SAMPLE_TOKENS), most)
        resized = _resized(row, count, distinct="input_ids" in name)
        sample[name] = torch.ones_like(resized) if "mask" in name else resized
    return sample


def _resized(row: Tensor, count: int, distinct: bool) -> Tensor:
    """Cut or repeat the tokens between the first and the last, which may be special."""
    if row.shape[1] == count:
        return row
    inner = row[:, 1:-1] if row.shape[1] > 2 else row[:, :1]
    places = torch.arange(count - 2, device=row.device)
    filled = inner[:, places % inner.shape[1]]
    if distinct:  # a model without positions could not tell equal tokens apart
        filled = (filled - places // inner.shape[1]).abs()
    return torch.cat([row[:, :1], filled, row[:, -1:]], 1)
