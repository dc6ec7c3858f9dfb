"""Receipts: the checks behind a result, with their errors and tolerances."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.jsonable import Number, jsonable


@dataclass(frozen=True)
class Check:
    """Relative errors of one identity, usually one per block, and the largest error allowed."""

    errors: tuple[Number, ...]
    allowed: Number

    @property
    def worst(self) -> float:
        return float(np.max(self.errors, initial=0.0))  # NaN if any error is NaN


@dataclass(frozen=True)
class Receipt:
    """The checks of a result against the real forward pass, further figures, and unverified assumptions.

    Every receipt has the checks `parity` (weights times values equal the output of the model's own kernel) and
    `sum_of_parts` (residual input plus attention branch equal what flowed out of the block); `chain` (only attention
    carries information between positions and layers) unless the capture was a quick one. `learnt` is what was proved
    on an earlier pass, when the model was learnt.
    """

    checks: Mapping[str, Check]
    figures: Mapping[str, Number]
    assumed: tuple[str, ...]
    learnt: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The receipt as plain lists and numbers, ready for JSON."""
        checks = {name: {"errors": check.errors, "allowed": check.allowed} for name, check in self.checks.items()}
        return jsonable({"checks": checks, "figures": self.figures, "assumed": self.assumed, "learnt": self.learnt})

    def worse(self, other: "Receipt") -> "Receipt":
        """Combine the receipts of the same computation on two inputs: larger errors and figures, all assumptions."""
        checks = {
            name: Check(
                tuple(np.maximum(check.errors, other.checks[name].errors).tolist()),  # NaN if either is
                max(check.allowed, other.checks[name].allowed),
            )
            for name, check in self.checks.items()
        }
        figures = {name: max(value, other.figures[name]) for name, value in self.figures.items()}
        assumed, learnt = self.assumed + other.assumed, self.learnt + other.learnt
        return Receipt(checks, figures, tuple(dict.fromkeys(assumed)), tuple(dict.fromkeys(learnt)))
