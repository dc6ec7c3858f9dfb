"""How contextual each layer makes its tokens: figures of maps, by several methods, over one text or many."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from thalweg.axes import LayerArray
from thalweg.results.receipt import Receipt
from thalweg.tokens import Tokens

Start = Literal["embeddings", "layer"]
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


@dataclass(eq=False)
class MixingSums:
    """Figures added up over texts, so that a corpus of any size takes the room of one text."""

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

    def add(self, maps: LayerArray, tokens: Tokens, touched: Bool[np.ndarray, "layer token"], receipt: Receipt) -> None:
        """The maps [layer target source] of one text; only the rows that a layer touches count."""
        places, segments = np.arange(len(tokens)), np.array(tokens.segments)
        apart = np.abs(places[:, None] - places)
        apart[segments[:, None] != segments] = 0  # no distance; and oneself is counted apart
        kinds = np.array([_kind(name, special) for name, special in zip(tokens.kinds(), tokens.special, strict=True)])
        for layer, (full, chosen) in enumerate(zip(maps.astype(np.float64), touched, strict=True)):
            rows, here = full[chosen], places[chosen]
            self.rows[layer] += len(rows)
            self.own[layer] += rows[np.arange(len(rows)), here].sum()
            self.not_own[layer] += (rows.argmax(1) != here).sum()
            for number, (least, most) in enumerate(DISTANCES.values()):
                inside = (apart[chosen] >= least) & (apart[chosen] <= (most or len(tokens)))
                self.by_distance[layer, number] += rows[inside].sum()
            for number, kind in enumerate(KINDS):
                self.by_kind[layer, number] += rows[:, kinds == kind].sum()
        self.receipt = receipt if self.receipt is None else self.receipt.worse(receipt)

    def means(self) -> MixingFigures:
        """Divided by how many rows there were."""
        assert self.receipt is not None
        rows = self.rows[:, None]
        return MixingFigures(
            self.own / self.rows, self.not_own / self.rows, self.by_distance / rows, self.by_kind / rows, self.receipt
        )


def _kind(name: str, special: bool) -> str:
    return "special" if special else "punctuation" if name == "punctuation" else "content"


def cumulative(maps: LayerArray) -> LayerArray:
    """From single layers to products of all layers up to each: what reached a layer from the input."""
    found = [maps[0].astype(np.float64)]
    for one in maps[1:]:
        found.append(one @ found[-1])
    return np.stack(found)
