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
    window: int = option(3, "neighbouring tokens that are covered together")


@baseline(
    params=Params, paper="Zeiler & Fergus 2014", cost="one pass per token", guarantee="measured on the real model"
)
def occlusion(case: Case, params: Params) -> Maps:
    """How far the answer falls when a window that holds the token is covered by blanks, on average over such windows.

    With a window of one it is leave-one-out with blanks instead of deletion.
    """
    if params.window < 1:
        raise InputError(f"window was given {params.window}; expected 1 or more")
    width = min(params.window, len(case.movable))
    windows = [case.movable[first : first + width] for first in range(len(case.movable) - width + 1)]
    whole, *covered = case.scorer([case.whole, *(case.without(window, "mask") for window in windows)])
    falls, counts = np.zeros(len(case.whole)), np.zeros(len(case.whole))
    for window, left in zip(windows, covered, strict=True):
        falls[list(window)] += whole - left
        counts[list(window)] += 1
    return Maps(torch.from_numpy(falls / np.maximum(counts, 1))[None])
