"""Short names for what a run depends on, so that it can be told from another: texts, and the weights of a model."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def fingerprint(model: "nn.Module") -> str:
    """The same for the same weights, wherever they were loaded from."""
    import torch

    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().flatten().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def digest(texts: Sequence[str]) -> str:
    """The same for the same texts in the same order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
