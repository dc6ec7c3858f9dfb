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
    "trust": "thalweg.trusting",
    "trust_head": "thalweg.trusting",
    "trust_by_length": "thalweg.trusting",
    "intervals": "thalweg.trusting",
    "alternatives": "thalweg.trusting",
    "report": "thalweg.reporting",
    "probe": "thalweg.probing.probe",
    "train": "thalweg.training.train",
    "Examples": "thalweg.training.data",
    "Plan": "thalweg.training.plan",
    "bench": "thalweg.faithfulness.bench",
    "run_corpus": "thalweg.corpus.run",
    "Corpus": "thalweg.corpus.result",
    "reproduce": "thalweg.claims.reproduce",
    "Ledger": "thalweg.claims.ledger",
    "Example": "thalweg.faithfulness.data",
    "Bench": "thalweg.faithfulness.result",
    "Attribution": "thalweg.results.attribution",
    "Comparison": "thalweg.results.comparison",
    "Mixing": "thalweg.results.mixing",
    "Certificate": "thalweg.results.trust",
    "Intervals": "thalweg.results.trust",
    "Alternatives": "thalweg.results.trust",
    "LengthCurve": "thalweg.results.trust",
    "Probes": "thalweg.probing.result",
    "Training": "thalweg.training.result",
    "Report": "thalweg.results.report",
    "Receipt": "thalweg.results.receipt",
    "list_methods": "thalweg.registry",
    "ThalwegError": "thalweg.errors",
    "InputError": "thalweg.errors",
    "ModelError": "thalweg.errors",
    "ProofError": "thalweg.errors",
}

__all__ = [
    "load", "Subject", "Capture", "explain", "compare", "mixing", "trust", "trust_head", "trust_by_length", "intervals",
    "alternatives", "report", "probe", "train", "Examples", "Plan", "bench", "Example", "run_corpus", "Corpus",
    "reproduce", "Ledger",
    "Attribution", "Comparison", "Mixing", "Certificate", "Intervals", "Alternatives", "LengthCurve", "Report",
    "Probes", "Training", "Bench", "Receipt", "list_methods", "ThalwegError", "InputError", "ModelError",
    "ProofError", "__version__",
]  # fmt: skip

if TYPE_CHECKING:
    from thalweg.capture.record import Capture
    from thalweg.claims.ledger import Ledger
    from thalweg.claims.reproduce import reproduce
    from thalweg.corpus.result import Corpus
    from thalweg.corpus.run import run_corpus
    from thalweg.errors import InputError, ModelError, ProofError, ThalwegError
    from thalweg.explaining import compare, explain, mixing
    from thalweg.faithfulness.bench import bench
    from thalweg.faithfulness.data import Example
    from thalweg.faithfulness.result import Bench
    from thalweg.models.load import Subject, load
    from thalweg.probing.probe import probe
    from thalweg.probing.result import Probes
    from thalweg.registry import list_methods
    from thalweg.reporting import report
    from thalweg.results.attribution import Attribution
    from thalweg.results.comparison import Comparison
    from thalweg.results.mixing import Mixing
    from thalweg.results.receipt import Receipt
    from thalweg.results.report import Report
    from thalweg.results.trust import Alternatives, Certificate, Intervals, LengthCurve
    from thalweg.training.data import Examples
    from thalweg.training.plan import Plan
    from thalweg.training.result import Training
    from thalweg.training.train import train
    from thalweg.trusting import alternatives, intervals, trust, trust_by_length, trust_head


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
