"""Options of the methods that explain a logit; no method itself."""

from dataclasses import dataclass

from thalweg.registry import option


@dataclass(frozen=True)
class LogitParams:
    """Which number of the model's answer is explained."""

    output: int | None = option(None, "class or token id to explain; the one that the model chose when left out")
    foil: int | None = option(None, "another one: explain how far the output is above it, not the output alone")
