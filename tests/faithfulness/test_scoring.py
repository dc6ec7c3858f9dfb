"""Edited inputs get the answers they would get alone, each runs once, and every pass is counted."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.faithfulness.cases import Additive, additive_case, subject_of, tiny_case
from tests.reference.test_metrics import answer_without
from tests.tiny import HOOKS, tiny_subject
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.scoring import count_passes


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama", "electra"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_answers_when_run_as_a_batch_then_are_those_of_single_passes(family: str, operator: Operator) -> None:
    case = tiny_case(family)
    edits = [case.without(case.removable[:count], operator) for count in range(len(case.removable) + 1)]
    batch = case.scorer(edits)
    alone = tiny_case(family)
    single = [float(alone.scorer([edit])[0]) for edit in edits]
    assert batch == pytest.approx(single, abs=1e-6)
    assert len(set(batch.round(9))) > 2


@pytest.mark.parametrize("operator", OPERATORS)
def test_bundled_model_when_edits_are_batched_then_answers_as_one_by_one(
    bundled: tw.Subject, operator: Operator
) -> None:
    case = make_case(bundled, BenchExample("a gorgeous, witty, seductive movie that never quite lands ."))
    order = list(np.random.default_rng(1).permutation(case.removable))
    removed = [[int(position) for position in order[:count]] for count in range(len(order) + 1)]
    batch = case.scorer([case.without(positions, operator) for positions in removed])
    assert batch == pytest.approx([answer_without(case, positions, operator) for positions in removed], abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "gpt2", "electra"])
def test_original_when_scored_then_has_the_probability_of_the_captured_pass(family: str) -> None:
    case = tiny_case(family)
    assert case.capture.logits is not None
    position = case.original.answer_position
    logits = case.capture.logits if position is None else case.capture.logits[position]
    probability = float(logits.double().softmax(-1).max())
    assert float(case.scorer([case.original])[0]) == pytest.approx(probability, abs=1e-6)


def test_deletion_when_run_then_equals_the_text_without_the_word() -> None:
    case = make_case(subject_of("bert"), BenchExample("the old dog"))
    shorter = subject_of("bert").capture("the dog").logits
    assert shorter is not None
    answer = case.scorer([case.without([2], "delete")])[0]
    assert answer == pytest.approx(float(shorter.double().softmax(-1)[case.answer.output]), abs=1e-6)


def test_inputs_when_requested_twice_then_run_once() -> None:
    case = additive_case()
    edits = [case.without([position], "mask") for position in case.removable]
    first = case.scorer(edits + edits[:2])
    assert (case.scorer(edits + edits[:2]) == first).all()
    assert isinstance(case.scorer.model, Additive)
    assert sum(case.scorer.model.batch_sizes) == len(edits)
    assert case.scorer.requests == 2 * len(edits) + 4


def test_passes_when_a_batch_runs_then_count_its_examples_and_leave_no_hook() -> None:
    model, other = tiny_subject("bert").model, tiny_subject("bert").model
    with count_passes(model, other, model) as meter:
        model(input_ids=torch.ones(3, 4, dtype=torch.long))
        other(input_ids=torch.ones(2, 4, dtype=torch.long))
    model(input_ids=torch.ones(3, 4, dtype=torch.long))
    assert meter.passes == 5
    assert not any(vars(module)[kind] for module in (model, other) for kind in HOOKS)
