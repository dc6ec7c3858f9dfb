"""The errors that Thalweg raises: what is wrong, the value in question, how to fix it."""

from collections.abc import Iterable
from difflib import get_close_matches

from thalweg.printable import visible


class ThalwegError(Exception):
    """Base class of every error that Thalweg raises; control characters in its message are spelt out."""

    def __str__(self) -> str:
        return visible(super().__str__())


class InputError(ThalwegError, ValueError):
    """A text, tokens, a file or a parameter cannot be used."""


class ModelError(ThalwegError, ValueError):
    """The model cannot be loaded, or is in a state in which it cannot be explained."""


class ProofError(ThalwegError, ArithmeticError):
    """A decomposition does not reproduce what flowed through the model."""


class MissingExtraError(ThalwegError, ImportError):
    """An optional package is missing; the message names the extra to install."""


class DamagedFileWarning(UserWarning):
    """A file of a run is not as the run wrote it; its content is computed again."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the closest one or all of them."""
    return InputError(f"unknown {kind} {name!r}; {nearest_name(name, known)}")


def nearest_name(name: object, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the closest one that exists, or all of them.

    >>> nearest_name("tekst", ["text", "label"]), nearest_name("body", ["text", "label"])
    ("did you mean 'text'?", 'expected one of text, label')
    """
    names = list(known)
    close = closest(str(name), names)
    return f"expected one of {', '.join(names) or 'none'}" if close is None else f"did you mean {close!r}?"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name that a misspelt one comes close to, if any; the dashes of options do not count."""
    bare = {entry.lstrip("-"): entry for entry in known}
    return next((bare[match] for match in get_close_matches(name.lstrip("-"), bare, n=1)), None)


def error_line(error: Exception) -> str:
    """The message of an error on one line, valid as UTF-8; third-party exceptions are prefixed with their type."""
    if isinstance(error, ThalwegError):
        line = " ".join(Exception.__str__(error).split())  # line breaks as spaces, not spelt out
    else:
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return line.encode(errors="backslashreplace").decode()
