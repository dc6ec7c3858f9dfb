"""Mixing figures: own shares, and the shares of neighbours and kinds of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from thalweg.capture.target import Start
from thalweg.receipt import Receipt

if TYPE_CHECKING:
    from rich.console import RenderableType

DISTANCES = {"1st": (1, 1), "2nd": (2, 2), "3rd": (3, 3), "4–5": (4, 5), "6–10": (6, 10), "11+": (11, None)}
KINDS = ("special", "punctuation", "content")


@dataclass(frozen=True, eq=False)
class MixingFigures:
    """Means over tokens for every layer.

    - `own`: a token's share in its own row. `not_own`: share of tokens whose largest contributor is another token.
    - `by_distance`: shares of neighbours by distance, as in `DISTANCES`, both sides together. Tokens of the other text
      of an encoder-decoder have no distance.
    - `by_kind`: shares of special tokens, punctuation and content tokens, including a token's own share.
    """

    own: Float[np.ndarray, " layer"]
    not_own: Float[np.ndarray, " layer"]
    by_distance: Float[np.ndarray, "layer distance"]
    by_kind: Float[np.ndarray, "layer kind"]
    receipt: Receipt

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain lists, ready for JSON."""
        return {
            "own": self.own.tolist(),
            "not_own": self.not_own.tolist(),
            "by_distance": [dict(zip(DISTANCES, row, strict=True)) for row in self.by_distance.tolist()],
            "by_kind": [dict(zip(KINDS, row, strict=True)) for row in self.by_kind.tolist()],
            "receipt": self.receipt.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Mixing:
    """Mixing figures of several methods, from the embeddings to each layer or from the previous layer."""

    figures: Mapping[str, MixingFigures]
    layers: tuple[str, ...]
    start: Start
    texts: int
    tokens: int
    provenance: Mapping[str, str]

    @property
    def own(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """Mean own share of tokens, by method."""
        return {name: figures.own for name, figures in self.figures.items()}

    def __rich__(self) -> "RenderableType":
        from thalweg.attribution.view import mixing_text

        return mixing_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "start": self.start,
            "texts": self.texts,
            "tokens": self.tokens,
            "layers": list(self.layers),
            "methods": {name: figures.to_dict() for name, figures in self.figures.items()},
            "provenance": dict(self.provenance),
        }
