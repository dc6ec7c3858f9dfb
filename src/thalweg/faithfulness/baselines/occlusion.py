from dataclasses import dataclass

import numpy as np
import torch

from thalweg.errors import InputError
from thalweg.faithfulness.case import Case
from thalweg.faithfulness.registry import baseline
from thalweg.methods.params import option
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    window: int = option(3, "number of neighbouring tokens that are covered together")


@baseline(
    params=Params, paper="Zeiler & Fergus 2014", cost="one pass per token", guarantee="measured on the model itself"
)
def occlusion(case: Case, params: Params) -> Maps:
    """Fall of the answer when a window around the token is covered by blanks, averaged over all such windows.

    With a window of one token it is leave-one-out with blanks instead of deletion.
    """
    if params.window < 1:
        raise InputError(f"window must be at least 1, got {params.window}")
    width = min(params.window, len(case.removable))
    windows = [case.removable[first : first + width] for first in range(len(case.removable) - width + 1)]
    full, *covered = case.scorer([case.original, *(case.without(window, "mask") for window in windows)])
    falls, counts = np.zeros(len(case.original)), np.zeros(len(case.original))
    for window, answer in zip(windows, covered, strict=True):
        falls[list(window)] += full - answer
        counts[list(window)] += 1
    return Maps(torch.from_numpy(falls / np.maximum(counts, 1))[None])
