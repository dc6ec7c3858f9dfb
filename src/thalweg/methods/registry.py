"""Registry of attribution methods.

A method is one file in this folder, or in any installed package that declares an entry point in the group
`thalweg.methods`: a `Params` dataclass and a function decorated with `@method`. Its `Traits` state what kind of method
it is; explain, compare, mixing, report, bench, corpus, the docs and the contract tests read these, never its name.
See docs/adding_a_method.md.
"""

import pkgutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType, ModuleType
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import LayerMaps
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.errors import InputError, ProofError, error_line, unknown_name
from thalweg.memory import require_memory
from thalweg.methods.params import Option, options, read_params
from thalweg.numerics import working
from thalweg.printable import visible

ENTRY_POINTS = "thalweg.methods"
Cost = Literal["low", "moderate", "high"]
Chain = Literal["product", "flow"]
ModelKind = Literal["single sequence", "encoder-decoder"]
EVERY_KIND: frozenset[ModelKind] = frozenset(("single sequence", "encoder-decoder"))


class NameClashError(InputError):
    """Two modules register a method under the same name."""


@dataclass(frozen=True)
class Traits:
    """Typed properties of a method with its default parameters.

    - `signed`: scores may be negative.
    - `rows_sum_to_one`: scores are non-negative shares of each target (attention sinks aside).
    - `explains_logit`: scores belong to one logit or its probability, so the model must return logits, and a classifier
      has a single row.
    - `sums_to_logit`: scores and the terms in the receipt sum to that logit.
    - `layer_maps`: "steps" if there is a map from each layer to the next, "cumulative" if there is a map from the
      embeddings to each layer (`Params` then has a field `start`), None if there are no maps of all layers.
    - `chain`: how steps combine into the scores: by "product", or as the maximum "flow" with steps as capacities.
    - `cost`: "low" is about one forward pass, "moderate" a few, "high" grows with the number of tokens.
    - `max_tokens`: the length up to which the method runs unless requested by name (None: any length);
      `max_tokens_all_targets`: the length up to which it explains all positions at once.
    - `serves`: the kinds of model the method accepts.
    """

    signed: bool = False
    rows_sum_to_one: bool = False
    explains_logit: bool = False
    sums_to_logit: bool = False
    layer_maps: Literal["steps", "cumulative"] | None = None
    chain: Chain | None = None
    cost: Cost = "moderate"
    max_tokens: int | None = None
    max_tokens_all_targets: int | None = None
    serves: frozenset[ModelKind] = EVERY_KIND

    def __post_init__(self) -> None:
        if self.signed and self.rows_sum_to_one:
            raise InputError("traits contradict each other: signed scores are not shares, so drop rows_sum_to_one")
        if self.sums_to_logit and not self.explains_logit:
            raise InputError("traits contradict each other: sums_to_logit requires explains_logit")
        if (self.chain is not None) != (self.layer_maps == "steps"):
            raise InputError(
                f"chain requires layer_maps='steps' and vice versa, got "
                f"chain={self.chain!r} with layer_maps={self.layer_maps!r}"
            )
        if not self.serves or not self.serves <= EVERY_KIND:
            kinds = ", ".join(sorted(EVERY_KIND))
            raise InputError(f"serves must be a set of one or more of {kinds}, got {set(self.serves)!r}")

    def affordable(self, tokens: int) -> bool:
        """Whether the method runs on a text of this length without being requested by name."""
        return self.max_tokens is None or tokens <= self.max_tokens

    def affordable_for_all_targets(self, tokens: int) -> bool:
        """Whether the method explains every position of a text of this length."""
        return self.max_tokens_all_targets is None or tokens <= self.max_tokens_all_targets


@dataclass(frozen=True, eq=False)
class Maps:
    """Return value of a method: one row of scores over all tokens per target, with its evidence.

    `per_layer` are the maps that the trait `layer_maps` promises. `parity` is the worst parity of each block that was
    read, `figures` and `assumed` go to the receipt, and `errors` are half widths of the scores' error bars. `chained`
    is False if the parameters break the relation between `per_layer` and the scores that the trait `chain` states.
    """

    scores: Float[Tensor, "target source"]
    per_layer: LayerMaps | None = None
    parity: tuple[float, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    errors: Float[Tensor, "target source"] | None = None
    chained: bool = True


Function = Callable[[Capture, Target, Any], Maps]
Memory = Callable[[Capture], int]  # how many numbers a method holds at most


def several_maps(capture: Capture) -> int:
    """Two maps over all tokens for every block, and a few more: what most methods hold."""
    return (2 * len(capture.blocks) + 8) * len(capture.tokens) ** 2


@dataclass(frozen=True)
class Method:
    """A registered method, its traits, and its cost and guarantee in words."""

    name: str
    function: Function
    params: type
    traits: Traits
    paper: str
    cost: str
    guarantee: str
    memory: Memory = several_maps

    @property
    def summary(self) -> str:
        return summary_of(self.function)

    @property
    def options(self) -> list[Option]:
        return options(self.params)

    def make_params(self, values: Mapping[str, Any]) -> Any:
        """Check values against the method's parameters; strings from a command line are converted."""
        return read_params(self.name, self.params, values)

    @torch.inference_mode(False)  # some methods differentiate, also if the caller disabled gradients
    def run(self, capture: Capture, target: Target, params: Any) -> Maps:
        """Run the method, or raise if its traits rule this model out."""
        kind = model_kind(capture)
        if kind not in self.traits.serves:
            supported = ", ".join(sorted(self.traits.serves))
            raise InputError(f"{self.name} does not support {kind} models (supported: {supported})")
        if self.traits.explains_logit and capture.logits is None:
            raise InputError(
                f"{self.name} explains a logit, but the model returns no logits: load it with its head (task=...), or "
                "use a method that explains hidden states, such as alti"
            )
        states = capture.blocks[0].input
        require_memory(
            f"{self.name} of {len(capture.tokens)} tokens",
            self.memory(capture) * working(states.dtype).itemsize,
            states.device,
            "use a shorter text, or another method: alti and attention_rollout need the least",
        )
        maps = self.function(capture, target, params)
        expected = (len(target.positions), len(capture.tokens))
        if tuple(maps.scores.shape) != expected:
            raise ProofError(f"{self.name} returned scores of shape {tuple(maps.scores.shape)}, expected {expected}")
        for name in ("scores", "per_layer", "errors"):
            numbers = getattr(maps, name)
            if numbers is not None and not numbers.isfinite().all():
                raise ProofError(
                    f"{self.name} returned NaN or infinite {name}: numbers overflow, or zero is divided by zero; "
                    "load the model with dtype='float64', or use another method"
                )
        return maps


def model_kind(capture: Capture) -> ModelKind:
    """The kind of model that a capture was made of."""
    return "single sequence" if all(block.role == "self" for block in capture.blocks) else "encoder-decoder"


_methods: dict[str, Method] = {}


def method(
    *, params: type, traits: Traits, paper: str, cost: str, guarantee: str, memory: Memory = several_maps
) -> Callable[[Function], Function]:
    """Register a function under its own name; it is refused where `memory` exceeds what is available."""

    def register(function: Function) -> Function:
        name = function.__name__
        if name in _methods and _methods[name].function.__module__ != function.__module__:
            raise NameClashError(
                f"method {name!r} is registered by both {_methods[name].function.__module__} and "
                f"{function.__module__}: rename one of them, or uninstall its package"
            )
        if traits.layer_maps == "cumulative" and "start" not in {entry.name for entry in fields(params)}:
            raise InputError(f"method {name!r} has cumulative maps, so its Params need a field 'start'")
        _methods[name] = Method(name, function, params, traits, paper, cost, guarantee, memory)
        return function

    return register


def list_methods() -> Mapping[str, Method]:
    """Every method by name: our own, those of installed packages, and those registered in this process."""
    _load_all()
    return MappingProxyType(dict(sorted(_methods.items())))


@cache
def _load_all() -> None:
    import thalweg.methods as folder

    import_modules(folder)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            __import__(entry.module)
        except NameClashError:
            raise  # a name must not mean one method or the other by the order in which packages load
        except Exception as error:  # noqa: BLE001 - a broken plug-in must not take our own methods with it
            warnings.warn(
                visible(f"cannot load the methods of {entry.name!r} ({entry.value}): {error_line(error)}"),
                RuntimeWarning,
                stacklevel=2,
            )


def import_modules(package: ModuleType) -> None:
    """Import every module of a package, so that each registers its function."""
    for module in pkgutil.iter_modules(package.__path__):
        __import__(f"{package.__name__}.{module.name}")  # importlib would leave the sketch of a module (sketch.py)


def find_method(name: str) -> Method:
    """Look a method up by name."""
    methods = list_methods()
    if isinstance(name, str) and name in methods:
        return methods[name]
    raise unknown_name("method", name, methods)


def summary_of(function: Callable[..., Any]) -> str:
    """The first line of a docstring, empty if there is none."""
    return (function.__doc__ or "").strip().partition("\n")[0]
