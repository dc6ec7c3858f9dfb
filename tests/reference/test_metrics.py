"""Every metric against a slow, literal twin of its formula: one pass at a time, nothing cached or batched."""

from itertools import permutations
from math import ceil, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.faithfulness.cases import metric_value, ranking_of, tiny_case
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Case, Ranking, make_case
from thalweg.faithfulness.examples import BenchExample

FAMILIES = ("bert", "roberta", "gpt2", "electra")


def run_once(case: Case, ids: list[int], visible: list[int], answer_position: int | None) -> float:
    """One pass of one input, as the documentation of transformers would run it."""
    model: Any = case.subject.model
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([visible])}
    if case.original.type_ids is not None:  # all zero for a single text
        inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    with torch.no_grad():
        logits = model(**inputs).logits[0]
    row = logits if answer_position is None else logits[answer_position]
    return float(torch.softmax(row.double(), -1)[case.answer.output])


def answer_without(case: Case, removed: list[int], operator: Operator) -> float:
    """The answer without some positions."""
    ids, position = list(case.original.ids), case.original.answer_position
    if operator == "delete":
        kept = [place for place in range(len(ids)) if place not in removed]
        moved = None if position is None else kept.index(position)
        return run_once(case, [ids[place] for place in kept], [1] * len(kept), moved)
    blank = case.blanks.mask if operator == "mask" else case.blanks.pad
    assert blank is not None
    edited = [blank if place in removed else token_id for place, token_id in enumerate(ids)]
    visible = [int(operator == "mask" or place not in removed) for place in range(len(ids))]
    return run_once(case, edited, visible, position)


def twin(base: str, ranking: Ranking, operator: Operator) -> float:
    case = ranking.case
    order = sorted(case.removable, key=lambda place: -ranking.scores[place])
    m, full = len(order), answer_without(case, [], operator)

    def removed(count: int) -> float:
        return answer_without(case, order[:count], operator)

    def kept(count: int) -> float:
        return answer_without(case, order[count:], operator)

    shares = [ceil(m * percent / 100) for percent in (1, 5, 10, 20, 50)]
    if base == "comprehensiveness":
        return sum(full - removed(count) for count in shares) / 6
    if base == "sufficiency":
        return sum(full - kept(count) for count in shares) / 6
    if base == "aopc":
        return sum(full - removed(count) for count in range(1, m + 1)) / m
    if base == "log_odds":
        return log(removed(ceil(m / 5)) / full)
    step = removed if base == "deletion_area" else kept
    return sum((step(count) + step(count + 1)) / 2 for count in range(m)) / m


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    "base", ["comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion_area", "insertion_area"]
)
def test_metric_when_computed_literally_then_is_the_same(family: str, operator: Operator, base: str) -> None:
    case = tiny_case(family)
    ranking = ranking_of(case, np.random.default_rng(2).normal(size=len(case.removable)))
    value = metric_value(base, ranking, operator)
    assert value == pytest.approx(twin(base, ranking, operator), abs=2e-6)
    assert abs(value) > 1e-6


@pytest.mark.parametrize("operator", OPERATORS)
def test_naopc_when_all_permutations_are_tried_then_is_the_same(operator: Operator) -> None:
    case = make_case(tiny_case("bert").subject, BenchExample("the old dog runs"))
    rankings = [ranking_of(case, -np.array(order, dtype=np.float64)) for order in permutations(range(4))]
    values = [twin("aopc", ranking, operator) for ranking in rankings]
    span = max(values) - min(values)
    for value, ranking in zip(values, rankings, strict=True):
        expected = (value - min(values)) / span
        assert metric_value("naopc", ranking, operator) == pytest.approx(expected, abs=1e-3 + 4e-6 / span)


@given(st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda m: 0 < sum(m) < 4), st.permutations(range(4)))
def test_plausibility_when_computed_by_definition_then_is_the_same(marks: list, order: list) -> None:
    words = ["the", "old", "dog", "runs"]
    starts = [0, 4, 8, 12]
    spans = tuple((starts[i], starts[i] + len(words[i])) for i in range(4) if marks[i])
    case = make_case(tiny_case("bert").subject, BenchExample(" ".join(words), rationale=spans))
    ranking = ranking_of(case, -np.array(order, dtype=np.float64))
    by_rank = [marks[i] for i in sorted(range(4), key=lambda i: order[i])]
    precisions = [sum(by_rank[: k + 1]) / (k + 1) for k in range(4) if by_rank[k]]
    assert metric_value("plausibility", ranking) == pytest.approx(sum(precisions) / len(precisions))
    top, count = by_rank[: sum(marks)], sum(marks)
    precision = recall = sum(top) / count
    f1 = 0.0 if precision == 0 else 2 * precision * recall / (precision + recall)
    assert metric_value("plausibility_f1", ranking) == pytest.approx(f1)
