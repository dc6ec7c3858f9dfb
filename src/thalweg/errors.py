"""The errors that Thalweg raises: what is wrong, the value in question, how to fix it."""


class ThalwegError(Exception):
    """Base class of every error that Thalweg raises."""


class InputError(ThalwegError, ValueError):
    """A text, tokens, a file or a parameter cannot be used."""


class ModelError(ThalwegError, ValueError):
    """The model cannot be loaded, or is in a state in which it cannot be explained."""


class ProofError(ThalwegError, ArithmeticError):
    """A decomposition does not reproduce what flowed through the model."""


class MissingExtraError(ThalwegError, ImportError):
    """An optional package is missing; the message names the extra to install."""


def error_line(error: Exception) -> str:
    """The message of an error on one line, valid as UTF-8; third-party exceptions are prefixed with their type."""
    line = " ".join(str(error).split())
    if not isinstance(error, ThalwegError):
        line = f"{type(error).__name__}: {line}"
    return line.encode(errors="backslashreplace").decode()
