"""How contextual each layer makes its tokens: figures of maps, by several methods, over one text or many."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.results.receipt import Receipt
from thalweg.target import Start

DISTANCES = {"1st": (1, 1), "2nd": (2, 2), "3rd": (3, 3), "4–5": (4, 5), "6–10": (6, 10), "11+": (11, None)}
KINDS = ("special", "punctuation", "content")


@dataclass(frozen=True, eq=False)
class MixingFigures:
    """Means over tokens of what a map says, for every layer.

    - `own`: a token's share in its own map. `not_own`: how many tokens have a larger contributor than themselves.
    - `by_distance`: what neighbours give, by how far away they stand, both sides together, as in `DISTANCES`; what
      comes from the other text of an encoder-decoder has no distance.
    - `by_kind`: what special tokens, punctuation and content tokens give, a token's own share included.
    """

    own: Float[np.ndarray, " layer"]
    not_own: Float[np.ndarray, " layer"]
    by_distance: Float[np.ndarray, "layer distance"]
    by_kind: Float[np.ndarray, "layer kind"]
    receipt: Receipt

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, ready for JSON."""
        return {
            "own": self.own.tolist(),
            "not_own": self.not_own.tolist(),
            "by_distance": [dict(zip(DISTANCES, row, strict=True)) for row in self.by_distance.tolist()],
            "by_kind": [dict(zip(KINDS, row, strict=True)) for row in self.by_kind.tolist()],
            "receipt": self.receipt.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Mixing:
    """Figures of several methods; maps lead from the embeddings to each layer, or from the layer before."""

    figures: Mapping[str, MixingFigures]
    layers: tuple[str, ...]
    start: Start
    texts: int
    tokens: int
    provenance: Mapping[str, str]

    @property
    def own(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """What tokens keep of themselves, by method."""
        return {name: one.own for name, one in self.figures.items()}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "start": self.start,
            "texts": self.texts,
            "tokens": self.tokens,
            "layers": list(self.layers),
            "methods": {name: one.to_dict() for name, one in self.figures.items()},
            "provenance": dict(self.provenance),
        }
