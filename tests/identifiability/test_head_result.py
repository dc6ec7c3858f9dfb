"""Intervals and alternatives as results."""

import json
from dataclasses import replace

import numpy as np

from tests.identifiability.test_result import HEAD, RECEIPT
from thalweg.identifiability.head_result import Alternative, Alternatives, Intervals
from thalweg.identifiability.result import HeadReport
from thalweg.tokens import anonymous

INTERVALS = Intervals(
    layer=1,
    head=2,
    tokens=anonymous(3),
    targets=np.array([0, 0]),
    sources=np.array([1, 2]),
    weights=np.array([0.5, 0.3]),
    low=np.array([0.25, 0.3]),
    high=np.array([0.75, 0.3]),
    statuses={"optimal": 2, "unique": 2},
    receipt=RECEIPT,
    provenance={"model": "tiny"},
)
ALTERNATIVE = Alternative(
    targets=(0,),
    weights=np.array([[0.2, 0.4, 0.4]]),
    total_variation=np.array([0.4]),
    at_most=np.array([0.6]),
    head_error=1e-7,
    compared="logits",
    moved=1e-7,
    allowed=1e-6,
    control=1e-2,
    head_output=np.array([[1.0, -2.0]]),
    output=np.array([2.5, -1.0]),
)
ALTERNATIVES = Alternatives(
    layer=1,
    head=2,
    tokens=anonymous(3),
    targets=(0,),
    weights=np.array([[0.6, 0.2, 0.2]]),
    head_output=np.array([[1.0, -2.0]]),
    output_names=("positive", "negative"),
    output=np.array([2.5, -1.0]),
    polytope=ALTERNATIVE,
    keys=None,
    missing={"keys": "all are locally unique"},
    receipt=RECEIPT,
    provenance={"model": "tiny"},
)


def test_intervals_when_written_then_have_an_entry_per_weight() -> None:
    assert INTERVALS.widths.tolist() == [0.5, 0]
    described = json.loads(json.dumps(INTERVALS.to_dict(), allow_nan=False))
    assert described["intervals"][0] == {"target": 0, "source": 1, "weight": 0.5, "low": 0.25, "high": 0.75}


def test_alternative_when_the_output_moved_or_the_control_did_not_then_is_not_proved() -> None:
    assert ALTERNATIVE.proved
    assert not replace(ALTERNATIVE, moved=1e-5).proved
    assert not replace(ALTERNATIVE, control=1e-7).proved


def test_alternatives_when_written_then_have_those_that_exist_and_reasons_for_the_others() -> None:
    described = json.loads(json.dumps(ALTERNATIVES.to_dict(), allow_nan=False))
    assert described["polytope"]["weights"] == [[0.2, 0.4, 0.4]]
    assert "keys" not in described
    assert described["output"] == {"positive": 2.5, "negative": -1.0}
    assert described["missing"] == {"keys": "all are locally unique"}


def test_best_when_both_alternatives_exist_then_is_the_wider_choice() -> None:
    both = replace(ALTERNATIVES, keys=replace(ALTERNATIVE, moved=0.0))
    assert both.best is both.polytope
    assert replace(both, polytope=None).best is both.keys
    assert replace(both, polytope=None, keys=None).best is None


def test_head_report_when_written_then_has_all_three_parts() -> None:
    described = json.loads(json.dumps(HeadReport(HEAD, INTERVALS, ALTERNATIVES).to_dict(), allow_nan=False))
    assert described["head"]["verdict"] == "identifiable"
    assert (described["intervals"]["head"], described["alternatives"]["head"]) == (2, 2)
