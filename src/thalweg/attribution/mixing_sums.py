"""Sums of mixing figures over texts."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from thalweg.attribution.mixing_result import DISTANCES, KINDS, MixingFigures
from thalweg.axes import LayerArray
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens


@dataclass(eq=False)
class MixingSums:
    """Running sums of mixing figures, whose memory does not grow with the number of texts."""

    layers: int
    rows: Float[np.ndarray, " layer"] = field(init=False)
    own: Float[np.ndarray, " layer"] = field(init=False)
    not_own: Float[np.ndarray, " layer"] = field(init=False)
    by_distance: Float[np.ndarray, "layer distance"] = field(init=False)
    by_kind: Float[np.ndarray, "layer kind"] = field(init=False)
    receipt: Receipt | None = None

    def __post_init__(self) -> None:
        self.rows, self.own, self.not_own = (np.zeros(self.layers) for _ in range(3))
        self.by_distance = np.zeros((self.layers, len(DISTANCES)))
        self.by_kind = np.zeros((self.layers, len(KINDS)))

    def add(self, maps: LayerArray, tokens: Tokens, updated: Bool[np.ndarray, "layer token"], receipt: Receipt) -> None:
        """Add the maps [layer target source] of one text; only rows that a layer updates count."""
        places, segments = np.arange(len(tokens)), np.array(tokens.segments)
        apart = np.abs(places[:, None] - places)
        apart[segments[:, None] != segments] = 0  # no distance: other texts, and a token itself
        distances = np.zeros_like(apart)  # index of each pair's distance from 1; 0 if it has none
        for number, (least, most) in enumerate(DISTANCES.values(), 1):
            distances[(apart >= least) & (apart <= (most or len(tokens)))] = number
        named = [_kind(name, special) for name, special in zip(tokens.kinds(), tokens.special, strict=True)]
        kinds = np.array([KINDS.index(kind) for kind in named])
        for layer, (full, chosen) in enumerate(zip(maps.astype(np.float64), updated, strict=True)):
            rows, here = _shares(full[chosen]), places[chosen]
            self.rows[layer] += len(rows)
            self.own[layer] += rows[np.arange(len(rows)), here].sum()
            self.not_own[layer] += (rows.argmax(1) != here).sum()
            self.by_distance[layer] += np.bincount(distances[chosen].ravel(), rows.ravel(), len(DISTANCES) + 1)[1:]
            self.by_kind[layer] += np.bincount(kinds, rows.sum(0), len(KINDS))
        self.receipt = receipt if self.receipt is None else self.receipt.worse(receipt)

    def means(self) -> MixingFigures:
        """Means over all rows added so far."""
        assert self.receipt is not None
        rows = self.rows[:, None]
        return MixingFigures(
            self.own / self.rows, self.not_own / self.rows, self.by_distance / rows, self.by_kind / rows, self.receipt
        )


def _shares(rows: Float[np.ndarray, "target source"]) -> Float[np.ndarray, "target source"]:
    """Divide rows by their sums, unless any entry is negative."""
    sums = rows.sum(1, keepdims=True)
    return np.divide(rows, sums, out=rows.copy(), where=sums > 0) if (rows >= 0).all() else rows


def _kind(name: str, special: bool) -> str:
    return "special" if special else "punctuation" if name == "punctuation" else "content"
