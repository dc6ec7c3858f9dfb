"""Every metric against a slow, literal twin of its formula: one pass at a time, nothing kept, nothing batched."""

from itertools import permutations
from math import ceil, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

import thalweg as tw
from tests.faithfulness.additive import ranked
from tests.faithfulness.test_scoring import tiny_case
from thalweg.faithfulness.agreement import Scored, agreements
from thalweg.faithfulness.case import Case, Ranked, case_of
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.rankers import find_rankers
from thalweg.faithfulness.registry import find_metrics
from thalweg.faithfulness.statistics import holm

FAMILIES = ("bert", "roberta", "gpt2", "electra")


def answer(case: Case, ids: list[int], seen: list[int], read: int | None) -> float:
    """One pass of one input, as transformers' documentation would run it."""
    model: Any = case.subject.model
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([seen])}
    if case.whole.types is not None:  # of one text they are all zero
        inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    with torch.no_grad():
        logits = model(**inputs).logits[0]
    row = logits if read is None else logits[read]
    return float(torch.softmax(row.double(), -1)[case.answer.output])


def left(case: Case, gone: list[int], operator: Operator) -> float:
    """The answer without some positions."""
    ids, read = list(case.whole.ids), case.whole.read
    if operator == "delete":
        kept = [place for place in range(len(ids)) if place not in gone]
        return answer(case, [ids[p] for p in kept], [1] * len(kept), None if read is None else kept.index(read))
    blank = case.blanks.mask if operator == "mask" else case.blanks.pad
    assert blank is not None
    new = [blank if place in gone else one for place, one in enumerate(ids)]
    seen = [int(operator == "mask" or place not in gone) for place in range(len(ids))]
    return answer(case, new, seen, read)


def twin(base: str, one: Ranked, operator: Operator) -> float:
    case, order = one.case, sorted(one.case.movable, key=lambda place: -one.scores[place])
    m, whole = len(order), left(one.case, [], operator)

    def removed(count: int) -> float:
        return left(case, order[:count], operator)

    def kept(count: int) -> float:
        return left(case, order[count:], operator)

    shares = [ceil(m * percent / 100) for percent in (1, 5, 10, 20, 50)]
    if base == "comprehensiveness":
        return sum(whole - removed(count) for count in shares) / 6
    if base == "sufficiency":
        return sum(whole - kept(count) for count in shares) / 6
    if base == "aopc":
        return sum(whole - removed(count) for count in range(1, m + 1)) / m
    if base == "log_odds":
        return log(removed(ceil(m / 5)) / whole)
    step = removed if base == "deletion_area" else kept
    return sum((step(count) + step(count + 1)) / 2 for count in range(m)) / m


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    "base", ["comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion_area", "insertion_area"]
)
def test_metric_when_computed_literally_then_is_the_same(family: str, operator: Operator, base: str) -> None:
    case = tiny_case(family)
    one = ranked(case, np.random.default_rng(2).normal(size=len(case.movable)))
    found = find_metrics([base], operator)[0](one)
    assert found == pytest.approx(twin(base, one, operator), abs=2e-6)
    assert abs(float(found or 0)) > 1e-6


@pytest.mark.parametrize("operator", OPERATORS)
def test_naopc_when_all_permutations_are_tried_then_is_the_same(operator: Operator) -> None:
    case = case_of(tiny_case("bert").subject, BenchExample("the old dog runs"))
    values = [
        twin("aopc", ranked(case, -np.array(order, dtype=np.float64)), operator) for order in permutations(range(4))
    ]
    for number, order in enumerate(permutations(range(4))):
        found = find_metrics(["naopc"], operator)[0](ranked(case, -np.array(order, dtype=np.float64)))
        expected = (values[number] - min(values)) / (max(values) - min(values))
        assert found == pytest.approx(expected, abs=1e-3 + 4e-6 / (max(values) - min(values)))


@given(st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda m: 0 < sum(m) < 4), st.permutations(range(4)))
def test_plausibility_when_computed_by_definition_then_is_the_same(marks: list, order: list) -> None:
    words = ["the", "old", "dog", "runs"]
    starts = [0, 4, 8, 12]
    spans = tuple((starts[i], starts[i] + len(words[i])) for i in range(4) if marks[i])
    case = case_of(tiny_case("bert").subject, BenchExample(" ".join(words), rationale=spans))
    one = ranked(case, -np.array(order, dtype=np.float64))
    by_rank = [marks[i] for i in sorted(range(4), key=lambda i: order[i])]
    precisions = [sum(by_rank[: k + 1]) / (k + 1) for k in range(4) if by_rank[k]]
    assert find_metrics(["plausibility"], "delete")[0](one) == pytest.approx(sum(precisions) / len(precisions))
    top, count = by_rank[: sum(marks)], sum(marks)
    precision = recall = sum(top) / count
    f1 = 0.0 if precision == 0 else 2 * precision * recall / (precision + recall)
    assert find_metrics(["plausibility_f1"], "delete")[0](one) == pytest.approx(f1)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_integrated_gradients_when_summed_by_hand_then_are_captums(family: str) -> None:
    """A Riemann sum in the middle of 400 steps, through the model's own encoder and nothing of ours."""
    case = tiny_case(family)
    model: Any = case.subject.model
    if family == "bert":

        def embedded(ids: tuple[int, ...]) -> torch.Tensor:
            return model.bert.embeddings(input_ids=torch.tensor([ids])).detach()

        def value(states: torch.Tensor) -> torch.Tensor:
            return model.classifier(model.bert.pooler(model.bert.encoder(states).last_hidden_state))[0].softmax(-1)

    else:

        def embedded(ids: tuple[int, ...]) -> torch.Tensor:
            return model.transformer.wte(torch.tensor([ids])).detach()

        def value(states: torch.Tensor) -> torch.Tensor:
            types = torch.tensor([case.whole.types])
            return model(inputs_embeds=states, token_type_ids=types).logits[0, case.whole.read].softmax(-1)

    there, start = embedded(case.whole.ids), embedded(case.without(case.movable, "mask").ids)
    total = torch.zeros_like(there)
    for step in range(400):
        point = (start + (step + 0.5) / 400 * (there - start)).requires_grad_()
        (slope,) = torch.autograd.grad(value(point)[case.answer.output], point)
        total += slope / 400
    expected = ((there - start) * total).sum(-1)[0].numpy()
    (ranker,) = find_rankers(["integrated_gradients:steps=100"])
    assert ranker(case).scores == pytest.approx(expected, abs=2e-5)
    assert np.abs(expected).max() > 1e-4


def test_holm_when_done_by_its_steps_then_is_the_same() -> None:
    """Sort; the smallest must be below α/n, the next below α/(n−1); stop at the first that is not."""
    chances = np.random.default_rng(0).beta(0.3, 3, size=(40, 9))
    for row in chances:
        for alpha in (0.01, 0.05, 0.2):
            rejected = set()
            for place, test in enumerate(sorted(range(9), key=lambda i: row[i])):
                if row[test] >= alpha / (9 - place):
                    break
                rejected.add(test)
            assert {i for i in range(9) if holm(row)[i] < alpha} == rejected


def test_agreement_when_computed_pair_by_pair_then_is_the_same() -> None:
    chance = np.random.default_rng(4)
    names = ("a", "b", "c")
    scored = [
        Scored(n, ["t"] * 7, {name: chance.integers(0, 5, 7).astype(float).tolist() for name in names})
        for n in range(6)
    ]
    for found in agreements(scored, names, 0):
        ranks = [[rankdata(one.scores[name]) for name in (found.first, found.second)] for one in scored]
        expected = np.mean([np.corrcoef(first, second)[0, 1] for first, second in ranks])
        assert found.correlation.mean == pytest.approx(expected)


@pytest.mark.parametrize("operator", OPERATORS)
def test_shipped_model_when_edits_are_batched_then_answers_as_one_by_one(
    shipped: tw.Subject, operator: Operator
) -> None:
    case = case_of(shipped, BenchExample("a gorgeous, witty, seductive movie that never quite lands ."))
    order = list(np.random.default_rng(1).permutation(case.movable))
    gone = [[int(p) for p in order[:count]] for count in range(len(order) + 1)]
    batch = case.scorer([case.without(one, operator) for one in gone])
    assert batch == pytest.approx([left(case, one, operator) for one in gone], abs=1e-6)
