"""A small summary made by hand, for tests of its views."""

from pathlib import Path
from typing import Any

from tests.corpus.folders import IDENTITY, VERSIONS
from thalweg.corpus.shard_store import Counts
from thalweg.corpus.summary import (
    Band,
    ClassFigures,
    ClassWords,
    ErrorGroup,
    Example,
    HeadFigures,
    LayerFigures,
    LengthFigures,
    LowAgreement,
    MethodFigures,
    PairAgreement,
    Summary,
    TokenFigures,
    WordFigures,
    WorstCheck,
)

HALF = Band(0.5, 0.25, 0.75, 20)
FIGURES = {"own": HALF, "not_own": None, "special": HALF, "punctuation": None, "content": None}
VERDICT_SHARES = {"identifiable": 0.75, "locally unique given the keys": 0.25, "not identifiable": 0.0}
WITTY = TokenFigures("witty", times_largest=12, times_kept=15, mean_score=0.4, mean_size=0.4)
CLASSES = (ClassFigures("negative", 12, 0.6, 0.965, (3,)), ClassFigures("positive", 8, 0.4, None, (5,)))
DULL = WordFigures("dull", 12, 11, 0.25, 0.125, 0.05, 0.2, (3,))
WORDS = (ClassWords("alti", "negative", (DULL,)), ClassWords("alti", "positive", ()))
EXAMPLE = Example(
    3, 4, "r3", "negative", 0.975, "a dull fun", {"alti": ((0, "a", 0.01), (2, "dull", 0.5), (7, "fun", -0.2))}
)


def hand_made_summary(identity: dict[str, Any] | None = None, **changes: Any) -> Summary:
    """Twenty complete texts, two methods, one head; `identity` changes entries of the run's identity."""
    fields: dict[str, Any] = {
        "folder": Path("rows"),
        "identity": {
            **IDENTITY,
            "methods": ["alti", "attention_flow"],
            "texts": 20,
            "schema": 4,
            "thalweg": "0",
            **(identity or {}),
        },
        "provenance": {"model": "some model", **VERSIONS},
        "counts": Counts(20, 20),
        "tokens": Band(9.0, 4.0, 16.0, 20),
        "errors": (ErrorGroup("text", 3, "line 7 is broken", 6),),
        "checks": (WorstCheck("alti", "sum_of_parts", 20, 0, 2e-7, 1e-5, 3, 4),),
        "layers": (LayerFigures("alti", 0, FIGURES), LayerFigures("alti", 1, FIGURES)),
        "lengths": (
            LengthFigures(8, 10, 12, HALF, None, VERDICT_SHARES),
            LengthFigures(16, 20, 8, HALF, None, VERDICT_SHARES),
        ),
        "heads": (HeadFigures(0, 0, {name: int(20 * share) for name, share in VERDICT_SHARES.items()}, 0.5, None),),
        "methods": (MethodFigures("alti", 20, HALF, None, Band(1.5, 1.0, 2.0, 20), (WITTY,), ()),),
        "agreement": (PairAgreement("alti", "attention_flow", Band(-0.5, -0.75, 0.25, 20), 0),),
        "lowest_agreement": (LowAgreement(3, 4, 0, 12, -0.5, "alti", "attention_flow", -0.5),),
    }
    return Summary(**{**fields, **changes})
