"""What probes found: rates by layer, and the trained probes themselves, to be kept and asked again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.digests import weights_digest
from thalweg.errors import InputError
from thalweg.models.load import Subject
from thalweg.probing.linear import LinearMap
from thalweg.probing.mlp import MlpMap
from thalweg.probing.plan import Candidates, Key, Kind, Match
from thalweg.probing.recover import search
from thalweg.probing.search import Metric, Part
from thalweg.probing.states import read_states
from thalweg.probing.storage import Folder, read_stage
from thalweg.rates import Rate
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from rich.console import RenderableType

Trained = LinearMap | MlpMap


@dataclass(frozen=True, eq=False)
class Recovery:
    """Which tokens of one text are still themselves at which layer, by one probe.

    `hits` is 1 where the token was recovered and 0 where not (a fraction at a tie); `found` is what it was taken
    for: a position of the text, or an id of the vocabulary.
    """

    tokens: Tokens
    layers: tuple[int, ...]
    hits: Float[np.ndarray, "layer token"]
    found: Int[np.ndarray, "layer token"]
    taken_for: tuple[tuple[str, ...], ...]
    probe: str

    def __rich__(self) -> "RenderableType":
        from thalweg.probing.view import recovery_text

        return recovery_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "probe": self.probe,
            "tokens": list(self.tokens.pieces),
            "layers": list(self.layers),
            "hits": self.hits.tolist(),
            "taken_for": [list(row) for row in self.taken_for],
        }


@dataclass(frozen=True, eq=False)
class Probes:
    """Rates of recovered tokens by probe, on sentences that none of them has seen, and the probes."""

    rates: Mapping[tuple[Key, Match], Rate]
    chance: Mapping[Match, float]
    counts: Mapping[str, int]
    configuration: Mapping[str, Any]
    receipt: Receipt  # of a proved capture of one text
    provenance: Mapping[str, str]
    maps: Mapping[Key, Trained] = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("rates", "chance", "counts", "configuration", "provenance", "maps"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def curve(self, kind: Kind, metric: Metric, part: Part = "whole", match: Match = "strict") -> dict[int, Rate]:
        """The rates of one kind of probe, by layer."""
        found = {
            key.layer: rate
            for (key, way), rate in self.rates.items()
            if (key.kind, key.metric, key.part, way) == (kind, metric, part, match)
        }
        if not found:
            raise InputError(f"there is no probe {kind}, {metric}, {part}, matched {match!r}, in this run")
        return found

    def apply(
        self,
        subject: Subject,
        text: str,
        kind: Kind | None = None,
        metric: Metric | None = None,
        part: Part | None = None,
        match: Match = "strict",
    ) -> Recovery:
        """Ask one kind of probe for every token of one text, special ones too, which no probe has learnt from.

        Left out, it is the last kind that was trained, with the first metric and the first part.
        """
        if weights_digest(subject.model) != self.configuration["weights"]:
            raise InputError(
                f"these probes were trained on {self.provenance['model']!r} with other weights than {subject.name!r} "
                "has: probes fit the model they were trained on only"
            )
        trained = self.configuration
        chosen = [kind or trained["kinds"][-1], metric or trained["metrics"][0], part or trained["parts"][0]]
        keys = [key for key in (key for key, way in self.rates if way == match) if list(key[2:]) == chosen]
        if not keys:
            raise InputError(f"there is no probe {', '.join(chosen)}, matched {match!r}, in this run")
        candidates: Candidates = self.configuration["candidates"]
        states = read_states(subject, [text])
        found = search(subject, keys, self.maps, states, candidates)
        nearest = [found[key][match == "lenient"] for key in keys]
        guesses = np.stack([one.first.numpy() for one in nearest])
        return Recovery(
            tokens=states.tokens[0],
            layers=tuple(key.layer for key in keys),
            hits=np.stack([one.hits.double().numpy() for one in nearest]),
            found=guesses,
            taken_for=tuple(_named(subject, states.tokens[0], row, candidates) for row in guesses),
            probe=", ".join(chosen),
        )

    def __rich__(self) -> "RenderableType":
        from thalweg.probing.view import probes_text

        return probes_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the maps as plain lists and numbers, ready for JSON."""
        rates = [{**key._asdict(), "match": way, **asdict(rate)} for (key, way), rate in self.rates.items()]
        return {
            "rates": rates,
            "chance": dict(self.chance),
            "counts": dict(self.counts),
            "configuration": dict(self.configuration),
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }

    def save(self, folder: str | Path) -> None:
        """Write the probes and their rates into a folder; one that holds another run is refused."""
        tensors = {
            f"{number}.{name}": tensor
            for number, one in enumerate(self.maps.values())
            for name, tensor in _tensors(one).items()
        }
        header = {"result": self.to_dict(), "maps": [list(key) for key in self.maps]}
        Folder(Path(folder), self.configuration).keep("probes", tensors, header)

    @staticmethod
    def load(folder: str | Path) -> "Probes":
        """Read what `save` wrote."""
        file = Path(folder) / "probes.safetensors"
        if not file.is_file():
            raise InputError(f"{str(folder)!r} holds no finished probes: give the folder of a run that came to its end")
        return result_of(*read_stage(file), str(file))


def result_of(tensors: Mapping[str, Tensor], header: Mapping[str, Any], source: str) -> Probes:
    """A result from what was read of a file."""
    try:
        result = header["result"]
        rates = {}
        for row in result["rates"]:
            row = dict(row)
            rate = Rate(**{name: row.pop(name) for name in ("rate", "low", "high")})
            rates[Key(**{name: row[name] for name in Key._fields}), row["match"]] = rate
        maps = {Key(*key): _map(tensors, f"{number}.", key[2]) for number, key in enumerate(header["maps"])}
        return Probes(
            rates,
            result["chance"],
            result["counts"],
            result["configuration"],
            Receipt.from_dict(result["receipt"]),
            result["provenance"],
            maps,
        )
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{source!r} lacks a part of a run of probes: {error!r}") from error


def _tensors(one: Trained) -> dict[str, Tensor]:
    named = dict(vars(one))
    if isinstance(one, MlpMap):
        named |= {"weight": one.linear.weight, "bias": one.linear.bias}
        del named["linear"]
    return named


def _map(tensors: Mapping[str, Tensor], prefix: str, kind: Kind) -> Trained:
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    linear = LinearMap(own.pop("weight"), own.pop("bias"))
    return linear if kind == "linear" else MlpMap(linear, **own)


def _named(subject: Subject, tokens: Tokens, found: np.ndarray, candidates: Candidates) -> tuple[str, ...]:
    """What tokens were taken for, in words."""
    if candidates == "sentence":
        return tuple(tokens.pieces[place] for place in found)
    assert subject.tokenizer is not None
    return tuple(str(piece) for piece in subject.tokenizer.convert_ids_to_tokens(found.tolist()))
