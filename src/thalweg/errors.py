"""Every error that Thalweg raises on purpose: what was given, what was expected, what to do."""


class ThalwegError(Exception):
    """Root of the family; catch this to catch everything the library says on purpose."""


class InputError(ThalwegError, ValueError):
    """The text, the tokens or a parameter cannot be used as given."""


class ModelError(ThalwegError, ValueError):
    """The model cannot be loaded, or is in a state in which it must not be read."""


class ProofError(ThalwegError, ArithmeticError):
    """What was computed does not equal what really flowed through the model, so it is refused."""


class MissingExtraError(ThalwegError, ImportError):
    """An optional package is needed; the message says which extra to install."""


def said(error: Exception) -> str:
    """An error as one line, in characters that a file can hold; of what others raise the kind is said too."""
    line = " ".join(str(error).split())
    if not isinstance(error, ThalwegError):
        line = f"{type(error).__name__}: {line}"
    return line.encode(errors="backslashreplace").decode()
