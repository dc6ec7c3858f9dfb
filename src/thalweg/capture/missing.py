"""Absence with a reason: a part of a model that discovery did not find."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Stands in for what was not found. `reason` is a clause that an error message can end with."""

    reason: str
