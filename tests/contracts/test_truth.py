"""Truth: no lying model is explained wrongly, no honest one is refused, and what has no share has no effect."""

import re
from pathlib import Path

import pytest

from tests.architectures import captured as captured_family
from tests.contracts.honest_models import HONEST, captures
from tests.contracts.lying_models import LIES, captured, judge
from tests.contracts.zero_effect import zero_effect
from tests.families import PROVED, Family

TABLE = Path(__file__).parents[2] / "docs" / "architectures.md"


def test_battery_when_counted_then_has_every_case() -> None:
    assert len(LIES) >= 200
    assert len({case.family.name for case in LIES.values()}) >= 25
    assert len({case.tell for case in LIES.values()}) >= 100
    assert len(HONEST) >= 90
    assert len({case.change for case in HONEST.values()}) >= 30


@pytest.mark.parametrize("name", LIES)
def test_lying_model_when_captured_then_is_refused_or_explained_rightly(name: str) -> None:
    case = LIES[name]
    verdicts = judge(case)
    assert len(verdicts) == len(case.lengths) * case.texts
    assert max(verdict.effect for verdict in verdicts) >= case.least
    assert [v.message for v in verdicts if v.outcome == "wrong" and v.effect >= case.least] == []


@pytest.mark.parametrize("name", LIES)
def test_lying_model_when_it_does_not_lie_then_is_not_refused(name: str) -> None:
    for inputs in LIES[name].cases():
        _, capture = captured(LIES[name], False, inputs)
        assert len(capture.blocks) >= 3


@pytest.mark.parametrize("name", HONEST)
def test_honest_model_when_captured_then_is_not_refused(name: str) -> None:
    results = captures(HONEST[name])
    assert len(results) >= len(HONEST[name].inputs)
    assert all(block.chain_error is not None for capture in results for block in capture.blocks)


@pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)
def test_token_when_a_method_gives_it_zero_then_has_no_effect(family: Family) -> None:
    measured = zero_effect(family, captured_family(family))
    assert measured.pairs > 0 or "causal" not in family.traits
    assert measured.outside <= 2e-6
    assert measured.frozen <= 2e-6


def test_table_of_architectures_when_read_then_counts_the_battery() -> None:
    table = TABLE.read_text()
    counts = dict(
        re.findall(
            r"^\| (lying models|honest models|families without effect beyond the graph) \| (\d+) \|", table, re.M
        )
    )
    assert counts == {
        "lying models": str(len(LIES)),
        "honest models": str(len(HONEST) + len(LIES)),
        "families without effect beyond the graph": str(len(PROVED)),
    }
