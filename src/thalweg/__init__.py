"""Thalweg: where each token's information comes from inside a Transformer, and when to believe it.

    import thalweg as tw
    subject = tw.load()
    print(tw.explain(subject, "a gorgeous, witty, seductive movie.").top(3))

Importing the package is light: torch and transformers are imported when something is loaded.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
_LAZY = {
    "load": "thalweg.models.load",
    "Subject": "thalweg.models.load",
    "Capture": "thalweg.capture.record",
    "explain": "thalweg.explaining",
    "compare": "thalweg.explaining",
    "mixing": "thalweg.explaining",
    "Attribution": "thalweg.results.attribution",
    "Comparison": "thalweg.results.comparison",
    "Mixing": "thalweg.results.mixing",
    "Receipt": "thalweg.results.receipt",
    "list_methods": "thalweg.registry",
    "ThalwegError": "thalweg.errors",
    "InputError": "thalweg.errors",
    "ModelError": "thalweg.errors",
    "ProofError": "thalweg.errors",
}

__all__ = [
    "load", "Subject", "Capture", "explain", "compare", "mixing", "Attribution", "Comparison", "Mixing", "Receipt",
    "list_methods", "ThalwegError", "InputError", "ModelError", "ProofError", "__version__",
]  # fmt: skip

if TYPE_CHECKING:
    from thalweg.capture.record import Capture
    from thalweg.errors import InputError, ModelError, ProofError, ThalwegError
    from thalweg.explaining import compare, explain, mixing
    from thalweg.models.load import Subject, load
    from thalweg.registry import list_methods
    from thalweg.results.attribution import Attribution
    from thalweg.results.comparison import Comparison
    from thalweg.results.mixing import Mixing
    from thalweg.results.receipt import Receipt


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
