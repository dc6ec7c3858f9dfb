"""Attributions made by hand."""

import dataclasses
from typing import Any

import numpy as np

import thalweg as tw
from tests.test_tokens import tokens
from thalweg.attribution.result import POOLED
from thalweg.models.prediction import Outcome, Prediction
from thalweg.receipt import Check
from thalweg.tokens import Tokens

TEXT = "unhappy film"
THREE = tokens(TEXT, [(0, 2), (2, 7), (8, 12)], [0, 0, 1])  # un happy | film
FIVE = tokens(TEXT, [None, (0, 2), (2, 7), (8, 12), None], [None, 0, 0, 1, None])
SCORES = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.2, 0.2, 0.6]])


def answer(name: str) -> Prediction:
    return Prediction((Outcome(1, name, 0.75), Outcome(0, "other", 0.25)))


def attribution(
    scores: np.ndarray = SCORES,
    targets: Tokens = THREE,
    sources: Tokens = THREE,
    figures: dict[str, float] | None = None,
    **rest: Any,
) -> tw.Attribution:
    defaults: dict[str, Any] = {
        "method": "raw_attention",
        "params": {"layer": -1, "head": None},
        "receipt": tw.Receipt(
            checks={"parity": Check((1e-7, 2e-7), 2e-5), "sum_of_parts": Check((3e-7,), 1e-5)},
            figures=figures or {"share": 0.25},
            assumed=("nothing", "much"),
        ),
        "provenance": {"model": "tiny", "torch": "2"},
        "answer": answer("LABEL_1"),
    }
    columns = [sources.select((column,)) for column in range(len(sources))]
    rows = [targets.select((row,)) for row in range(len(targets))]
    positions = tuple(columns.index(row) if row in columns else POOLED for row in rows)
    return tw.Attribution(
        scores=scores, targets=targets, sources=sources, **{"positions": positions, **defaults, **rest}
    )


def assert_equal(actual: tw.Attribution, expected: tw.Attribution) -> None:
    for field in dataclasses.fields(expected):
        value, other = getattr(actual, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert value.dtype == other.dtype
            np.testing.assert_array_equal(value, other)
        else:
            assert value == other
            assert type(value) is type(other)
