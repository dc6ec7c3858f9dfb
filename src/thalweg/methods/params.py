"""Parameters of methods: declared as dataclass fields, read from Python values or command-line strings."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from thalweg.errors import InputError, closest

P = TypeVar("P")
TYPE_NAMES = {int: "an integer", float: "a number", str: "text", bool: "yes or no", type(None): "none"}


def option(default: Any, meaning: str) -> Any:
    """Declare a field of a `Params` dataclass by its default and a short description."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Option:
    """A parameter as users see it."""

    name: str
    default: Any
    choices: str
    meaning: str


@dataclass(frozen=True)
class LogitParams:
    """Parameters of the methods that explain a logit."""

    output: int | str | None = option(
        None, "class or token to explain, by name or number (default: the model's choice)"
    )
    foil: int | str | None = option(None, "second class or token: explain the difference of the two logits")


def options(params: type) -> list[Option]:
    """List the parameters of a `Params` dataclass."""
    hints = get_type_hints(params)
    return [
        Option(
            entry.name,
            None if entry.default is MISSING else entry.default,
            _choices(hints[entry.name]),
            entry.metadata.get("meaning", ""),
        )
        for entry in fields(cast(Any, params))
    ]


def read_params(owner: str, params: type[P], values: Mapping[str, Any]) -> P:
    """Build a `Params` dataclass from values, which may be the strings of a command line."""
    hints = get_type_hints(params)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        close = closest(unknown[0], hints)
        hint = "" if close is None else f"did you mean {close!r}? "
        raise InputError(f"{owner} has no parameter {unknown[0]!r}; {hint}it has {', '.join(hints) or 'none'}")
    return params(**{name: _convert(name, value, hints[name]) for name, value in values.items()})


def split_options(spec: str) -> tuple[str, dict[str, str]]:
    """Split `alti:measure=l2` into a name and its options."""
    name, *rest = spec.split(":")
    pairs = [part.partition("=") for part in rest]
    values = {option.replace("-", "_"): value for option, _, value in pairs}
    if not all(equals for _, equals, _ in pairs) or len(values) < len(pairs):
        raise InputError(f"cannot read the options of {spec!r}; expected name:option=value:option=value, each once")
    return name, values


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The types and literal values that a type hint allows."""
    if get_origin(hint) is None:
        return (hint,)
    return tuple(
        leaf for part in get_args(hint) for leaf in (_alternatives(part) if get_origin(part) is not None else (part,))
    )


def _choices(hint: Any) -> str:
    return " or ".join(TYPE_NAMES.get(choice, str(choice)) for choice in _alternatives(hint))


def _convert(name: str, value: Any, hint: Any) -> Any:
    allowed = _alternatives(hint)
    for literal in (choice for choice in allowed if not isinstance(choice, type)):
        if type(value) is type(literal) and value == literal:
            return value
        if isinstance(value, str) and value == str(literal):  # from a command line
            return literal
    kinds = [choice for choice in allowed if isinstance(choice, type)]
    for kind in sorted(kinds, key=lambda kind: kind is str):  # text last: any string is text
        try:
            return _read(value, kind)
        except ValueError:
            continue
    raise InputError(f"{name} must be {_choices(hint)}, got {value!r}")


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
