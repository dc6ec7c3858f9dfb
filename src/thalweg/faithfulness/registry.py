"""Metrics and baselines by name. Each is one file: a decorated function, with what a reader must know of it."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast

from thalweg.errors import InputError
from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.methods.registry import Maps, Method, Traits

Direction = Literal["higher", "lower"]
Role = Literal["faithfulness", "agreement", "plausibility", "robustness", "gate"]
Measure = Callable[..., float | None]  # of a Ranked and, where it takes tokens away, an operator
M = TypeVar("M", bound=Measure)
R = TypeVar("R", bound=Callable[..., Maps])
ARROWS: dict[Direction, str] = {"higher": "↑", "lower": "↓"}


@dataclass(frozen=True)
class Metric:
    """A measure with the operator it takes tokens away by; None where it takes none away.

    `reference` is the baseline that an agreement is measured with: it is shown, but does not compete.
    """

    base: str
    operator: Operator | None
    direction: Direction
    role: Role
    function: Measure
    paper: str
    reference: str | None = None

    @property
    def name(self) -> str:
        return self.base if self.operator is None else f"{self.base}_{self.operator}"

    @property
    def label(self) -> str:
        """The name with the direction that is better."""
        return f"{self.name} {ARROWS[self.direction]}"

    @property
    def summary(self) -> str:
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def __call__(self, ranked: Ranked) -> float | None:
        """The value; None where it is not defined for this example."""
        return self.function(ranked) if self.operator is None else self.function(ranked, self.operator)


_metrics: dict[str, Metric] = {}
_baselines: dict[str, Method] = {}


def metric(
    *, direction: Direction, role: Role, paper: str, operators: Sequence[Operator] = (), reference: str | None = None
) -> Callable[[M], M]:
    """Register a function under its own name, once for every operator."""

    def register(function: M) -> M:
        for operator in operators or (None,):
            found = Metric(function.__name__, operator, direction, role, function, paper, reference)
            _metrics[found.name] = found
        return function

    return register


def baseline(*, params: type, paper: str, cost: str, guarantee: str) -> Callable[[R], R]:
    """Register what methods are compared with: as a method, but asked about a `Case` instead of a capture."""

    def register(function: R) -> R:
        name = function.__name__
        _baselines[name] = Method(name, cast(Any, function), params, Traits(signed=True), paper, cost, guarantee)
        return function

    return register


@cache
def _import_all() -> None:
    import thalweg.faithfulness.baselines as baselines
    import thalweg.faithfulness.metrics as metrics

    for folder in (metrics, baselines):
        for module in pkgutil.iter_modules(folder.__path__):
            importlib.import_module(f"{folder.__name__}.{module.name}")


def list_metrics() -> Mapping[str, Metric]:
    """Every metric by name."""
    _import_all()
    return dict(sorted(_metrics.items()))


def list_baselines() -> Mapping[str, Method]:
    """Every baseline by name."""
    _import_all()
    return dict(sorted(_baselines.items()))


def find_metrics(names: Sequence[str], operator: Operator) -> tuple[Metric, ...]:
    """The metrics of these names; one that leaves its operator open gets the one that is given."""
    if operator not in OPERATORS:
        raise InputError(f"operator was given {operator!r}; expected one of {', '.join(OPERATORS)}")
    if isinstance(names, str):
        raise InputError(f"expected a list of metrics; {names!r} was given")
    known = list_metrics()
    found = []
    for name in names:
        full = name if name in known else f"{name}_{operator}"
        if full not in known:
            bases = dict.fromkeys(one.base for one in known.values())
            raise InputError(
                f"unknown metric {name!r}; expected one of {', '.join(bases)}, where tokens are taken away with "
                f"_{', _'.join(OPERATORS)} behind it if the operator is to be another than {operator}"
            )
        found.append(known[full])
    if not found or len(set(found)) < len(found):
        raise InputError(f"expected one or more different metrics; {', '.join(names) or 'none'} was given")
    return tuple(found)
