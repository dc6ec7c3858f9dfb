"""Registry of metrics and baselines. Each is one file in `metrics` or `baselines`: a function with a decorator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.errors import InputError, unknown_name
from thalweg.faithfulness.case import Case, Ranking
from thalweg.faithfulness.statistics import Limits
from thalweg.methods.params import read_params
from thalweg.methods.registry import Maps, import_modules, summary_of

Direction = Literal["higher", "lower"]
Role = Literal["faithfulness", "agreement", "plausibility", "robustness", "gate"]
Measure = Callable[..., float | None]  # takes a Ranking, and an operator if it removes tokens
ScoreCase = Callable[[Case, Any], Maps]  # takes a case and parameters, returns one row of scores
M = TypeVar("M", bound=Measure)
B = TypeVar("B", bound=ScoreCase)
ARROWS: dict[Direction, str] = {"higher": "↑", "lower": "↓"}


@dataclass(frozen=True)
class Metric:
    """A measure of rankings, with the operator that removes tokens (None if it removes none).

    - `direction`: whether higher or lower values are better.
    - `role`: a "gate" is passed or failed and compares with the model with shuffled weights; "robustness" compares
      with other seeds of the model; the others rank methods.
    - `limits`: the smallest and the largest possible value, or a function that computes them from those of the answer
      (0 and 1; −1 and 1 if it is a difference of two probabilities). Intervals stay between them.
    - `reference`: the method that an agreement is measured with. It is shown, but does not compete.
    """

    base: str
    operator: Operator | None
    direction: Direction
    role: Role
    function: Measure
    paper: str
    limits: Limits | Callable[[float, float], Limits]
    reference: str | None = None

    @property
    def name(self) -> str:
        return self.base if self.operator is None else f"{self.base}_{self.operator}"

    @property
    def label(self) -> str:
        """The name with an arrow that says which direction is better."""
        return f"{self.name} {ARROWS[self.direction]}"

    @property
    def summary(self) -> str:
        return summary_of(self.function)

    def limits_for(self, answer: Limits) -> Limits:
        """The smallest and the largest possible value if the answer is between these limits."""
        return self.limits(*answer) if callable(self.limits) else self.limits

    def __call__(self, ranking: Ranking) -> float | None:
        """The value for one example; None if it is not defined there."""
        return self.function(ranking) if self.operator is None else self.function(ranking, self.operator)


@dataclass(frozen=True)
class Baseline:
    """A reference ranking that methods are compared with.

    Unlike a method, which reads one capture, a baseline scores a `Case`, whose number and seed it knows. `is_floor`
    marks scores that depend on neither text nor model; verdicts say which methods are not better.
    """

    name: str
    function: ScoreCase
    params: type
    paper: str
    cost: str
    guarantee: str
    is_floor: bool = False

    @property
    def summary(self) -> str:
        return summary_of(self.function)

    def make_params(self, values: Mapping[str, Any]) -> Any:
        """Check values against the parameters; strings from a command line are converted."""
        return read_params(self.name, self.params, values)


_metrics: dict[str, Metric] = {}
_baselines: dict[str, Baseline] = {}


def metric(
    *,
    direction: Direction,
    role: Role,
    paper: str,
    limits: Limits | Callable[[float, float], Limits],
    operators: Sequence[Operator] = (),
    reference: str | None = None,
) -> Callable[[M], M]:
    """Register a function under its own name, once per operator."""

    def register(function: M) -> M:
        for operator in operators or (None,):
            entry = Metric(function.__name__, operator, direction, role, function, paper, limits, reference)
            _metrics[entry.name] = entry
        return function

    return register


def baseline(*, params: type, paper: str, cost: str, guarantee: str, is_floor: bool = False) -> Callable[[B], B]:
    """Register a function under its own name."""

    def register(function: B) -> B:
        name = function.__name__
        _baselines[name] = Baseline(name, function, params, paper, cost, guarantee, is_floor)
        return function

    return register


@cache
def _import_all() -> None:
    import thalweg.faithfulness.baselines as baselines
    import thalweg.faithfulness.metrics as metrics

    import_modules(metrics)
    import_modules(baselines)


def list_metrics() -> Mapping[str, Metric]:
    """Every metric by name."""
    _import_all()
    return MappingProxyType(dict(sorted(_metrics.items())))


def list_baselines() -> Mapping[str, Baseline]:
    """Every baseline by name."""
    _import_all()
    return MappingProxyType(dict(sorted(_baselines.items())))


def find_metrics(names: Sequence[str], operator: Operator) -> tuple[Metric, ...]:
    """Look metrics up by name; `operator` completes names that do not end in an operator."""
    if operator not in OPERATORS:
        raise InputError(f"operator must be {', '.join(OPERATORS[:-1])} or {OPERATORS[-1]}, got {operator!r}")
    if isinstance(names, str):
        raise InputError(f"metrics must be a list of names, got {names!r}")
    known = list_metrics()
    full_names = [name if name in known else f"{name}_{operator}" for name in names]
    for name, full_name in zip(names, full_names, strict=True):
        if full_name not in known:
            raise unknown_name("metric", name, dict.fromkeys(entry.base for entry in known.values()))
    if not full_names:
        raise InputError("metrics must name at least one metric")
    if len(set(full_names)) < len(full_names):
        raise InputError(f"metrics must be different, got {', '.join(full_names)}")
    return tuple(known[name] for name in full_names)
