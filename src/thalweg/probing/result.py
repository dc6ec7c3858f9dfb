"""Results of probing: recovery rates by layer, and the trained probes, which can be saved, loaded and applied."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.errors import InputError
from thalweg.files.records import read_as, reading, require
from thalweg.files.run_folder import RunFolder, RunKind, check_intact, open_run, read_header
from thalweg.models.subject import Subject
from thalweg.probing.linear import LinearMap
from thalweg.probing.mlp import MlpMap
from thalweg.probing.plan import Candidates, Match, ProbeKey, ProbeKind
from thalweg.probing.recover import search
from thalweg.probing.search import Metric, Part
from thalweg.probing.states import read_states
from thalweg.rates import Rate
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from rich.console import RenderableType

KIND = RunKind("probe", 3)
RESULT = "probes.safetensors"
TrainedMap = LinearMap | MlpMap


@dataclass(frozen=True, eq=False)
class Recovery:
    """Which tokens of one text a probe recovers, at each layer.

    `hits` is 1 where the token was recovered and 0 where it was not (a fraction for ties). `nearest` is the nearest
    candidate, as a position in the text or an id of the vocabulary; `taken_for` has the pieces of these candidates.
    """

    tokens: Tokens
    layers: tuple[int, ...]
    hits: Float[np.ndarray, "layer token"]
    nearest: Int[np.ndarray, "layer token"]
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
    """Recovery rates of each probe on held-out sentences, and the trained probes.

    `configuration` is the identity of the run: its options, and digests of the texts and of the model.
    """

    rates: Mapping[tuple[ProbeKey, Match], Rate]
    chance: Mapping[Match, float]
    counts: Mapping[str, int]
    configuration: Mapping[str, Any]
    receipt: Receipt  # of a verified capture of one text
    provenance: Mapping[str, str]
    maps: Mapping[ProbeKey, TrainedMap] = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("rates", "chance", "counts", "configuration", "provenance", "maps"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def curve(self, kind: ProbeKind, metric: Metric, part: Part = "whole", match: Match = "strict") -> dict[int, Rate]:
        """The rates of one kind of probe, by layer."""
        keys = self._keys(kind, metric, part, match)
        return {key.layer: self.rates[key, match] for key in keys}

    def apply(
        self,
        subject: Subject,
        text: str,
        kind: ProbeKind | None = None,
        metric: Metric | None = None,
        part: Part | None = None,
        match: Match = "strict",
    ) -> Recovery:
        """Recover every token of one text with one kind of probe, including special tokens, which were not trained on.

        By default the last trained kind with the first metric and the first part.
        """
        different = [name for name, value in subject.identity().items() if self.configuration.get(name) != value]
        if different:
            raise InputError(
                f"the probes were trained on {self.provenance['model']!r}, but {subject.name!r} has different "
                f"{', '.join(different)}; apply probes to the model they were trained on"
            )
        options: Any = self.configuration
        chosen = (kind or options["kinds"][-1], metric or options["metrics"][0], part or options["parts"][0])
        keys = self._keys(*chosen, match)
        candidates: Candidates = options["candidates"]
        states = read_states(subject, [text])
        searches = search(subject, keys, self.maps, states, candidates)
        matched = [searches[key][match == "lenient"] for key in keys]
        nearest = np.stack([layer.first.numpy() for layer in matched])
        return Recovery(
            tokens=states.tokens[0],
            layers=tuple(key.layer for key in keys),
            hits=np.stack([layer.hits.double().numpy() for layer in matched]),
            nearest=nearest,
            taken_for=tuple(_pieces(subject, states.tokens[0], row, candidates) for row in nearest),
            probe=", ".join(chosen),
        )

    def _keys(self, kind: ProbeKind, metric: Metric, part: Part, match: Match) -> list[ProbeKey]:
        """The probes of one kind, by layer; raises if the run has none."""
        keys = [key for key, way in self.rates if (key.kind, key.metric, key.part, way) == (kind, metric, part, match)]
        if not keys:
            raise InputError(f"this run has no probe {kind}, {metric}, {part} with match {match!r}")
        return keys

    def __rich__(self) -> "RenderableType":
        from thalweg.probing.view import probes_text

        return probes_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the maps as plain lists and numbers, ready for JSON."""
        rates = [{**key._asdict(), "match": match, **asdict(rate)} for (key, match), rate in self.rates.items()]
        return {
            "rates": rates,
            "chance": dict(self.chance),
            "counts": dict(self.counts),
            "configuration": dict(self.configuration),
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }

    def save(self, folder: str | Path) -> None:
        """Write the probes and their rates to a new folder, or to the folder of the same run."""
        with open_run(Path(folder), KIND, self.configuration, self.provenance) as run:
            write_probes(run, self)

    @staticmethod
    def load(folder: str | Path) -> "Probes":
        """Read the probes of a finished run."""
        path = Path(folder)
        run = RunFolder(path, KIND, read_header(path, KIND))
        if not (path / RESULT).exists():
            raise InputError(f"{path} holds an unfinished probe run: it has no {RESULT}")
        check_intact(path, [RESULT])
        with reading(path, "a probe run"):
            probes = read_probes(run)
        assert probes is not None
        return probes


def write_probes(run: RunFolder, probes: Probes) -> None:
    """Write a result to the folder of its run."""
    tensors = {
        f"{number}.{name}": tensor
        for number, trained in enumerate(probes.maps.values())
        for name, tensor in _tensors(trained).items()
    }
    run.write_tensors(RESULT, tensors, {"result": probes.to_dict(), "maps": [list(key) for key in probes.maps]})


def read_probes(run: RunFolder) -> Probes | None:
    """Read the result of a run; None if it is not finished."""
    with reading(run.path / RESULT, "probes"):
        stored = run.read_tensors(RESULT)
        if stored is None:
            return None
        tensors, header = stored
        file = read_as(_ProbesFile, header)
        rates: dict[tuple[ProbeKey, Match], Rate] = {
            (ProbeKey(row.layer, row.to, row.kind, row.metric, row.part), row.match): Rate(row.rate, row.low, row.high)
            for row in file.result.rates
        }
        maps = {key: _map(tensors, f"{number}.", key.kind) for number, key in enumerate(file.maps)}
        _check(file.result, rates, maps)
        return Probes(**{**vars(file.result), "rates": rates}, maps=maps)


@dataclass(frozen=True)
class _RateRow:
    layer: int
    to: int
    kind: ProbeKind
    metric: Metric
    part: Part
    match: Match
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class _ProbesDict:
    """What `Probes.to_dict` describes."""

    rates: tuple[_RateRow, ...]
    chance: Mapping[Match, float]
    counts: Mapping[str, int]
    configuration: Mapping[str, Any]
    receipt: Receipt
    provenance: Mapping[str, str]


@dataclass(frozen=True)
class _ProbesFile:
    result: _ProbesDict
    maps: tuple[ProbeKey, ...]


@dataclass(frozen=True)
class _Options:
    """The options of a run that its results need later."""

    kinds: tuple[ProbeKind, ...]
    metrics: tuple[Metric, ...]
    parts: tuple[Part, ...]
    candidates: Candidates
    to: int | Literal["previous"]


def _check(result: _ProbesDict, rates: Mapping[tuple[ProbeKey, Match], Rate], maps: Mapping[ProbeKey, Any]) -> None:
    """Raise unless the entries of a result are complete."""
    options = read_as(_Options, result.configuration, "configuration")
    require(bool(options.kinds and options.metrics and options.parts), "configuration must name kinds, metrics, parts")
    for match in get_args(Match):
        require(match in result.chance, f"chance.{match} is missing")
    for name in ("test tokens", "test sentences", "train sentences"):
        require(name in result.counts, f"counts.{name} is missing")
    require("model" in result.provenance, "provenance.model is missing")
    for (key, _), rate in rates.items():
        name = ", ".join(map(str, key))
        require(all((key, match) in rates for match in get_args(Match)), f"rates must have both matches of {name}")
        require(0 <= rate.rate <= 1, f"the rate of {name} must be from 0 to 1, got {rate.rate}")
        require(key.kind == "identity" or key in maps, f"maps has no map of {name}")


def _tensors(trained: TrainedMap) -> dict[str, Tensor]:
    tensors = dict(vars(trained))
    if isinstance(trained, MlpMap):
        tensors |= {"weight": trained.linear.weight, "bias": trained.linear.bias}
        del tensors["linear"]
    return tensors


def _map(tensors: Mapping[str, Tensor], prefix: str, kind: ProbeKind) -> TrainedMap:
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    require({"weight", "bias"} <= set(own), f"the tensors of map {prefix[:-1]} are missing")
    taken, width = own["weight"].shape if own["weight"].dim() == 2 else (0, 0)
    hidden = own["enter"].shape[-1] if "enter" in own and own["enter"].dim() else 0
    shapes = {
        "weight": (taken, width), "bias": (width,), "mean": (taken,), "spread": (taken,), "enter": (taken, hidden),
        "enter_bias": (hidden,), "leave": (hidden, width), "leave_bias": (width,),
    }  # fmt: skip
    for name, tensor in own.items():
        valid = tuple(tensor.shape) == shapes.get(name) and tensor.is_floating_point() and bool(tensor.isfinite().all())
        require(valid, f"the tensor {prefix}{name} must be finite numbers of shape {shapes.get(name)}")
    linear = LinearMap(own.pop("weight"), own.pop("bias"))
    return linear if kind == "linear" else MlpMap(linear, **own)


def _pieces(subject: Subject, tokens: Tokens, nearest: np.ndarray, candidates: Candidates) -> tuple[str, ...]:
    """The pieces of the nearest candidates."""
    if candidates == "sentence":
        return tuple(tokens.pieces[position] for position in nearest)
    assert subject.tokenizer is not None
    return tuple(str(piece) for piece in subject.tokenizer.convert_ids_to_tokens(nearest.tolist()))
