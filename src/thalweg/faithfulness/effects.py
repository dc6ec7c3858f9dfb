"""What the removal of each token alone does to the answer."""

import numpy as np
from jaxtyping import Float

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.operators import Operator


def single_effects(case: Case, operator: Operator) -> Float[np.ndarray, " movable"]:
    """p(x) − p(x without token i), for every token that can be taken away."""
    whole, *single = case.scorer([case.whole, *(case.without([place], operator) for place in case.movable)])
    return whole - np.array(single)
