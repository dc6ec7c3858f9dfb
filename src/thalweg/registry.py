"""Methods by name. A method is one file in `methods/`: a `Params` dataclass and a decorated function."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, cast, get_args, get_origin, get_type_hints

from jaxtyping import Float
from torch import Tensor

from thalweg.axes import LayerMaps
from thalweg.capture.record import Capture
from thalweg.errors import InputError
from thalweg.target import Target


@dataclass(frozen=True, eq=False)
class Maps:
    """What a method returns: a row of scores per target position over all tokens, and how it got there."""

    scores: Float[Tensor, "target source"]
    per_layer: LayerMaps | None = None
    parity: tuple[float, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    errors: Float[Tensor, "target source"] | None = None  # half widths of the scores' error bars, if they have any


Function = Callable[[Capture, Target, Any], Maps]


@dataclass(frozen=True)
class Method:
    """A registered method with what a user wants to know before choosing it."""

    name: str
    function: Function
    params: type
    paper: str
    cost: str
    guarantee: str

    @property
    def summary(self) -> str:
        return (self.function.__doc__ or "").strip().splitlines()[0]


_methods: dict[str, Method] = {}


def method(*, params: type, paper: str, cost: str, guarantee: str) -> Callable[[Function], Function]:
    """Register a function under its own name."""

    def register(function: Function) -> Function:
        name = function.__name__
        if name in _methods and _methods[name].function.__module__ != function.__module__:
            raise InputError(f"there is already a method {name!r}, in {_methods[name].function.__module__}")
        _methods[name] = Method(name, function, params, paper, cost, guarantee)
        return function

    return register


def list_methods() -> Mapping[str, Method]:
    """Every method by name; the files in `methods/` are found, not listed, and others may register theirs."""
    _import_all()
    return MappingProxyType(dict(sorted(_methods.items())))


@cache
def _import_all() -> None:
    import thalweg.methods as folder

    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{module.name}")


def find_method(name: str) -> Method:
    """The method of that name."""
    known = list_methods()
    if not isinstance(name, str) or name not in known:
        raise InputError(f"unknown method {name!r}; expected one of {', '.join(known)}")
    return known[name]


def split_options(spelled: str) -> tuple[str, dict[str, str]]:
    """`alti:measure=l2` as a name and its options, for `make_params` to read."""
    name, *rest = spelled.split(":")
    pairs = [one.partition("=") for one in rest]
    found = {option.replace("-", "_"): value for option, _, value in pairs}
    if not all(equals for _, equals, _ in pairs) or len(found) < len(pairs):
        raise InputError(
            f"the options of {spelled!r} cannot be read; expected name:option=value:option=value, each once"
        )
    return name, found


def option(default: Any, meaning: str) -> Any:
    """A field of a `Params` dataclass: its default and, in a few words, what it means."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Option:
    """A parameter as it is shown to a user."""

    name: str
    default: Any
    choices: str
    meaning: str


def options(params: type) -> list[Option]:
    """The parameters of a method, read from its dataclass."""
    hints = get_type_hints(params)
    return [
        Option(
            one.name,
            None if one.default is MISSING else one.default,
            _spelled(hints[one.name]),
            one.metadata.get("meaning", ""),
        )
        for one in fields(params)
    ]


def make_params(chosen: Method, given: Mapping[str, Any]) -> Any:
    """Check the given values against the method's `Params`; strings from a command line are read."""
    hints = get_type_hints(chosen.params)
    unknown = sorted(set(given) - set(hints))
    if unknown:
        allowed = ", ".join(hints) or "none"
        raise InputError(f"{chosen.name} has no parameter {unknown[0]!r}; its parameters are: {allowed}")
    return chosen.params(**{name: _fit(name, value, hints[name]) for name, value in given.items()})


def params_as_dict(params: Any) -> dict[str, Any]:
    return asdict(params)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The types and literal values that a hint allows."""
    if get_origin(hint) is None:
        return (hint,)
    return tuple(part for one in get_args(hint) for part in _alternatives_of(one))


def _alternatives_of(one: Any) -> tuple[Any, ...]:
    return _alternatives(one) if get_origin(one) is not None else (one,)


def _spelled(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "yes or no"}
    names[type(None)] = "none"
    return " or ".join(names.get(one, str(one)) for one in _alternatives(hint))


def _fit(name: str, value: Any, hint: Any) -> Any:
    allowed = _alternatives(hint)
    for literal in (one for one in allowed if not isinstance(one, type)):
        if type(value) is type(literal) and value == literal:
            return value
        if isinstance(value, str) and value == str(literal):  # as it comes from a command line
            return literal
    for kind in (one for one in allowed if isinstance(one, type)):
        try:
            return _read(value, kind)
        except ValueError:
            continue
    raise InputError(f"parameter {name!r} was given {value!r}; expected {_spelled(hint)}")


def _read(value: Any, kind: type) -> Any:
    if kind is type(None) and value in (None, "none"):
        return None
    if kind is bool and value in (True, False, "yes", "no", "true", "false"):
        return value in (True, "yes", "true")
    if kind in (int, float) and isinstance(value, str | Real) and not isinstance(value, bool):
        if kind is int and not isinstance(value, str | Integral):
            raise ValueError
        return kind(cast(Any, value))
    if kind is str and isinstance(value, str):
        return value
    raise ValueError
