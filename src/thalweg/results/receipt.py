"""What a result was checked by, and to what error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from thalweg.capture.record import Block


@dataclass(frozen=True)
class Check:
    """The errors of one identity, relative and mostly one per block, and the largest that is allowed."""

    errors: tuple[float, ...]
    allowed: float

    @property
    def worst(self) -> float:
        return float(np.max(self.errors, initial=0.0))  # NaN if any is


@dataclass(frozen=True)
class Receipt:
    """What was checked against the real pass, and to what error.

    Every receipt holds the checks `parity`, weights times values against the model's own kernel, and
    `sum_of_parts`, input plus attention branch against what flowed. `figures` are numbers that belong to what
    was computed; `assumed` says in words what was taken for granted.
    """

    checks: Mapping[str, Check]
    figures: Mapping[str, float]
    assumed: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain lists and numbers; JSON has no NaN and no infinity."""
        return {
            "checks": {
                name: {"errors": [_finite(error) for error in check.errors], "allowed": check.allowed}
                for name, check in self.checks.items()
            },
            "figures": {name: _finite(value) for name, value in self.figures.items()},
            "assumed": list(self.assumed),
        }

    def worse(self, other: "Receipt") -> "Receipt":
        """Of two receipts for the same computation on two inputs: the larger errors and figures, all assumptions."""
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
        """What `to_dict` wrote."""
        checks = {
            name: Check(tuple(nan if error is None else error for error in one["errors"]), one["allowed"])
            for name, one in described["checks"].items()
        }
        return Receipt(checks, described["figures"], tuple(described["assumed"]))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def block_checks(blocks: "Iterable[Block]", parity: tuple[float, ...] = ()) -> dict[str, Check]:
    """What is checked whenever attention is read: `parity` is that of the rows in use."""
    blocks = tuple(blocks)
    return {
        "parity": Check(parity or tuple(one.parity for one in blocks), max(one.parity_tolerance for one in blocks)),
        "sum_of_parts": Check(tuple(one.sum_error for one in blocks), max(one.tolerance for one in blocks)),
    }
