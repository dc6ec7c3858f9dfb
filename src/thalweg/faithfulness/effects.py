"""The effect of removing each token alone."""

import numpy as np
from jaxtyping import Float

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.operators import Operator


def single_effects(case: Case, operator: Operator) -> Float[np.ndarray, " removable"]:
    """p(x) − p(x without token i), for every removable token."""
    full, *without = case.scorer([case.original, *(case.without([token], operator) for token in case.removable)])
    return full - np.array(without)
