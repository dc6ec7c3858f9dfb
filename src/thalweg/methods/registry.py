"""Registry of attribution methods.

A method is one file in this folder, or in any installed package that declares an entry point in the group
`thalweg.methods`: a `Params` dataclass and a function decorated with `@method`. What a method is like stands in its
`Traits`; explain, compare, mixing, report, bench, corpus, the docs and the contract tests ask these, never its name.
"""

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

from thalweg.axes import LayerMaps
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.errors import InputError
from thalweg.methods.params import Option, options, read_params

ENTRY_POINTS = "thalweg.methods"
Cost = Literal["low", "moderate", "high"]
Chain = Literal["product", "flow"]
ModelKind = Literal["single sequence", "encoder-decoder"]
EVERY_KIND: frozenset[ModelKind] = frozenset(("single sequence", "encoder-decoder"))


@dataclass(frozen=True)
class Traits:
    """What a method is like, for everything that has to know before or after running it.

    - `signed`: scores may be negative.
    - `rows_sum_to_one`: scores are non-negative shares of each target (attention sinks aside).
    - `explains_logit`: scores belong to one logit, so the model must return logits, and a model with a single
      answer has a single row.
    - `layer_maps`: "steps" if the per-layer maps lead from one layer to the next, "cumulative" if each starts at
      the embeddings (the method then has a parameter `start`), None if there is no map for every layer. `chain`
      says how steps combine into the scores.
    - `cost`: "low" is about a forward pass, "moderate" a few, "high" grows with the number of tokens.
      `max_tokens` is the length up to which the method runs without being requested by name,
      `max_tokens_all_targets` the length up to which it explains all positions at once; None means any.
    - `serves`: the kinds of model the method accepts.
    """

    signed: bool = False
    rows_sum_to_one: bool = False
    explains_logit: bool = False
    layer_maps: Literal["steps", "cumulative"] | None = None
    chain: Chain | None = None
    cost: Cost = "moderate"
    max_tokens: int | None = None
    max_tokens_all_targets: int | None = None
    serves: frozenset[ModelKind] = EVERY_KIND

    def affordable(self, tokens: int) -> bool:
        """Whether the method runs on a text of this length without being requested by name."""
        return self.max_tokens is None or tokens <= self.max_tokens

    def affordable_for_all_targets(self, tokens: int) -> bool:
        """Whether the method explains every position of a text of this length."""
        return self.max_tokens_all_targets is None or tokens <= self.max_tokens_all_targets


@dataclass(frozen=True, eq=False)
class Maps:
    """What a method returns: a row of scores per target over all tokens, and how they came about.

    `errors` are half widths of the scores' error bars. `chained` is False where the parameters break the relation
    between `per_layer` and the scores that the method's traits state.
    """

    scores: Float[Tensor, "target source"]
    per_layer: LayerMaps | None = None
    parity: tuple[float, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    errors: Float[Tensor, "target source"] | None = None
    chained: bool = True


Function = Callable[[Capture, Target, Any], Maps]


@dataclass(frozen=True)
class Method:
    """A registered method with what users want to know before choosing it."""

    name: str
    function: Function
    params: type
    traits: Traits
    paper: str
    cost: str
    guarantee: str

    @property
    def summary(self) -> str:
        return summary_of(self.function)

    @property
    def options(self) -> list[Option]:
        return options(self.params)

    def make_params(self, values: Mapping[str, Any]) -> Any:
        """Check values against the method's parameters; strings from a command line are converted."""
        return read_params(self.name, self.params, values)


_methods: dict[str, Method] = {}


def method(*, params: type, traits: Traits, paper: str, cost: str, guarantee: str) -> Callable[[Function], Function]:
    """Register a function under its own name."""

    def register(function: Function) -> Function:
        name = function.__name__
        if name in _methods and _methods[name].function.__module__ != function.__module__:
            raise InputError(f"method {name!r} is already registered by {_methods[name].function.__module__}")
        _methods[name] = Method(name, function, params, traits, paper, cost, guarantee)
        return function

    return register


def list_methods() -> Mapping[str, Method]:
    """Every method by name: our own, those of installed packages, and those registered in this process."""
    _import_all()
    return MappingProxyType(dict(sorted(_methods.items())))


@cache
def _import_all() -> None:
    import thalweg.methods as folder

    import_modules(folder)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - a broken plug-in must not take our own methods with it
            warnings.warn(
                f"cannot load the methods of {entry.name!r} ({entry.value}): {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def import_modules(package: ModuleType) -> None:
    """Import every module of a package, so that each registers its function."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def find_method(name: str) -> Method:
    """Look a method up by name."""
    methods = list_methods()
    if isinstance(name, str) and name in methods:
        return methods[name]
    raise unknown_name("method", name, methods)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not registered, with the closest one or all of them."""
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")


def summary_of(function: Callable[..., Any]) -> str:
    """The first line of a docstring, empty if there is none."""
    return (function.__doc__ or "").strip().partition("\n")[0]
