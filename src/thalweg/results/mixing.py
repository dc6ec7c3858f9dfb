"""How contextual each layer makes its tokens: what they keep of themselves, by several maps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.results.attribution import Attribution


@dataclass(frozen=True)
class Mixing:
    """The share of its own token in each layer's map (the diagonal), by method: `own[method]` is [layer token]."""

    own: dict[str, Float[np.ndarray, "layer token"]]
    layers: tuple[str, ...]
    provenance: dict[str, str]

    def mean(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """The mean over tokens; of an encoder-decoder over those that the layer touches."""
        return {name: np.nanmean(own, axis=1) for name, own in self.own.items()}

    def to_dict(self) -> dict[str, Any]:
        """The means as plain lists, ready for JSON."""
        own = {name: means.tolist() for name, means in self.mean().items()}
        return {"layers": list(self.layers), "own_share": own, "provenance": dict(self.provenance)}


def own_share(attribution: Attribution) -> Float[np.ndarray, "layer token"]:
    """The diagonal of every layer's map."""
    assert attribution.per_layer is not None
    return attribution.per_layer.diagonal(axis1=1, axis2=2).astype(np.float64)
