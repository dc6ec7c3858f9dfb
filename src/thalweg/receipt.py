"""Receipts: the checks behind a result, with their errors and tolerances."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from thalweg.jsonable import jsonable


@dataclass(frozen=True)
class Check:
    """Relative errors of one identity, usually one per block, and the largest error allowed."""

    errors: tuple[float, ...]
    allowed: float

    @property
    def worst(self) -> float:
        return float(np.max(self.errors, initial=0.0))  # NaN if any error is NaN


@dataclass(frozen=True)
class Receipt:
    """The checks of a result against the real forward pass, further figures, and unverified assumptions.

    Every receipt has the checks `parity` (weights times values equal the output of the model's own kernel) and
    `sum_of_parts` (residual input plus attention branch equal what flowed out of the block).
    """

    checks: Mapping[str, Check]
    figures: Mapping[str, float]
    assumed: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The receipt as plain lists and numbers, ready for JSON."""
        checks = {name: {"errors": check.errors, "allowed": check.allowed} for name, check in self.checks.items()}
        return jsonable({"checks": checks, "figures": self.figures, "assumed": self.assumed})

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
        return Receipt(checks, figures, tuple(dict.fromkeys(self.assumed + other.assumed)))

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> "Receipt":
        """The receipt that `to_dict` described."""
        checks = {
            name: Check(tuple(nan if error is None else error for error in check["errors"]), check["allowed"])
            for name, check in described["checks"].items()
        }
        return Receipt(checks, described["figures"], tuple(described["assumed"]))
