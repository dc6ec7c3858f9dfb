"""Records from files: plain JSON data as frozen dataclasses, with every type checked.

A file may be damaged or crafted. Whatever is wrong with it becomes one error that names the file and the entry.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite, nan
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from thalweg.errors import InputError, ThalwegError, error_line

MAX_NESTING = 32  # of values without a type of their own, such as a method's parameters
SHOWN_CHARACTERS = 60  # of a value in an error
NAMES = {str: "text", int: "an integer", float: "a finite number", bool: "true or false", NoneType: "null"}
T = TypeVar("T")


class MismatchError(ValueError):
    """An entry that is missing or not what it should be."""


@contextmanager
def reading(file: Path, content: str) -> Iterator[None]:
    """Turn everything that a damaged or crafted file can make fail into an `InputError` that names the file."""
    try:
        yield
    except ThalwegError as error:
        if str(file) in str(error):
            raise
        raise InputError(f"{file} is not {content} that can be read: {error}") from error
    except RecursionError as error:
        raise InputError(f"{file} is not {content} that can be read: it is nested too deeply") from error
    except MismatchError as error:
        raise InputError(f"{file} is not {content} that can be read: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{file} is not {content} that can be read: {error_line(error)}") from error


def read_as(kind: type[T] | GenericAlias, value: Any, place: str = "") -> T:
    """The value as a record, or as another type that a field of a record may have; `place` names it in errors.

    >>> from thalweg.rates import Rate
    >>> read_as(Rate, {"rate": 0.5, "low": 0.25, "high": 1})
    Rate(rate=0.5, low=0.25, high=1.0)
    >>> read_as(Rate, {"rate": 0.5, "low": "none", "high": 1})
    Traceback (most recent call last):
    thalweg.files.records.MismatchError: low must be a finite number, got 'none'
    """
    return cast(T, _read(kind, value, place))


def require(holds: bool, message: str) -> None:
    """Raise unless entries of a file agree with each other."""
    if not holds:
        raise MismatchError(message)


def _read(kind: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _plain(value, place)
    if origin is Annotated:  # a number for which null stands for NaN
        return nan if value is None else _read(arguments[0], value, place)
    if origin in (Union, UnionType):
        return _either(arguments, value, place)
    if origin is Literal:
        require(isinstance(value, str) and value in arguments, _expected(place, " or ".join(arguments), value))
        return value
    if origin is tuple:
        return _sequence(arguments, value, place)
    if origin is not None and issubclass(origin, Mapping):
        require(isinstance(value, dict), _expected(place, "an object", value))
        names = (_read(arguments[0], name, f"a name in {place}") for name in value)
        return {name: _read(arguments[1], value[name], _inside(place, name)) for name in names}
    if is_dataclass(kind):
        require(isinstance(value, dict), _expected(place, "an object", value))
        optional = {entry.name for entry in fields(kind) if entry.default is not MISSING}
        names = [entry.name for entry in fields(kind) if entry.name in value or entry.name not in optional]
        return cast(Any, kind)(**_fields(kind, names, value, place))
    if issubclass(kind, tuple):  # a named tuple, written as a list
        names = cast(Any, kind)._fields
        require(isinstance(value, list) and len(value) == len(names), _expected(place, f"{len(names)} entries", value))
        return kind(**_fields(kind, names, dict(zip(names, value, strict=True)), place))
    return _scalar(kind, value, place)


def _fields(kind: Any, names: Any, value: dict[str, Any], place: str) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    for name in names:
        require(name in value, f"{_inside(place, name)} is missing")
    return {name: _read(hints[name], value[name], _inside(place, name)) for name in names}


def _either(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    for kind in kinds[:-1]:
        try:
            return _read(kind, value, place)
        except MismatchError:
            continue
    return _read(kinds[-1], value, place)


def _sequence(kinds: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    require(isinstance(value, list | tuple), _expected(place, "a list", value))
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    require(len(value) == len(kinds), _expected(place, f"{len(kinds)} entries", value))
    return tuple(_read(kind, entry, f"{place}[{n}]") for n, (kind, entry) in enumerate(zip(kinds, value, strict=True)))


def _scalar(kind: type, value: Any, place: str) -> Any:
    allowed = (int, float) if kind is float else (kind,)
    valid = type(value) in allowed and (kind is not float or isfinite(value))
    require(valid, _expected(place, NAMES[kind], value))
    return float(value) if kind is float else value


def _plain(value: Any, place: str, depth: int = 0) -> Any:
    require(depth <= MAX_NESTING, f"{place} is nested too deeply")
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for _, entry in entries:
        _plain(entry, place, depth + 1)
    return value


def _expected(place: str, what: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + "…"
    return f"{place or 'it'} must be {what}, got {shown}"


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
