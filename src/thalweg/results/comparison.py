"""Several methods on one pass, side by side."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from thalweg.results.attribution import Attribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """Attributions of the same targets and sources by different methods."""

    attributions: tuple[Attribution, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(one.method for one in self.attributions)

    def agreement(self) -> Float[np.ndarray, "method method"]:
        """Spearman's rank correlation between methods over all scores; NaN where one is constant.

        Where a method's scores have a sign, the sizes of all are ranked: most have none.
        """
        signed = any((one.scores < 0).any() for one in self.attributions)
        scores = [np.abs(one.scores) if signed else one.scores for one in self.attributions]
        ranks = np.stack([rankdata(one, axis=1).ravel() for one in scores])
        ranks = ranks - ranks.mean(1, keepdims=True)
        size = np.linalg.norm(ranks, axis=1, keepdims=True)
        size[size == 0] = np.nan
        return (ranks / size) @ (ranks / size).T

    def to_html(self) -> str:
        """One page that stands alone; in a notebook the result shows itself."""
        from thalweg.results.report import of_attributions

        return of_attributions(self.attributions).to_html()

    def _repr_html_(self) -> str:
        from thalweg.results.report import of_attributions

        return of_attributions(self.attributions)._repr_html_()

    def plot(self) -> "Figure":
        """A matplotlib figure: methods over the tokens of one target with their agreement, or a map of each."""
        from thalweg.views.plots import plot

        return plot(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        agreement = [[None if np.isnan(v) else float(v) for v in row] for row in self.agreement()]
        return {
            "methods": list(self.methods),
            "agreement": agreement,
            "attributions": [one.to_dict() for one in self.attributions],
        }
