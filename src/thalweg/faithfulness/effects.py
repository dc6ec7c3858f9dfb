"""The effect of removing each token alone."""

import numpy as np
from jaxtyping import Float

from thalweg.decompose.edits import Operator
from thalweg.faithfulness.case import Case


def single_effects(case: Case, operator: Operator) -> Float[np.ndarray, " removable"]:
    """p(x) − p(x without token i), for every removable token."""
    full, *without = case.scorer([case.original, *(case.without([token], operator) for token in case.removable)])
    return full - np.array(without)
