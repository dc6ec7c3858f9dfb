"""Edited inputs get the answers they would get alone, each is run once, and every pass is counted."""

from functools import cache

import pytest
import torch

import thalweg as tw
from tests.encoders.training.corpus import tiny_bert
from tests.faithfulness.additive import Additive, additive_case
from tests.tiny import HOOKS, tiny_subject, wordpiece
from thalweg.faithfulness.case import Case, case_of
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.scoring import metered

TEXTS = {"gpt2": "the key is the key", "llama": "the keys to the", "electra": "the old [MASK] is good ."}


@cache
def subject_of(family: str) -> tw.Subject:
    return tiny_subject(family)


def tiny_case(family: str) -> Case:
    return case_of(subject_of(family), BenchExample(TEXTS.get(family, "the old dog sees a new cat .")))


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama", "electra"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_answers_when_run_as_a_batch_then_are_those_of_single_passes(family: str, operator: Operator) -> None:
    case = tiny_case(family)
    edits = [case.without(case.movable[:count], operator) for count in range(len(case.movable) + 1)]
    batch = case.scorer(edits)
    alone = tiny_case(family)
    single = [float(alone.scorer([edit])[0]) for edit in edits]
    assert batch == pytest.approx(single, abs=1e-6)
    assert len(set(batch.round(9))) > 2


@pytest.mark.parametrize("family", ["bert", "gpt2", "electra"])
def test_whole_input_when_scored_then_has_the_probability_of_the_captured_pass(family: str) -> None:
    case = tiny_case(family)
    assert case.capture.logits is not None
    logits = case.capture.logits if case.whole.read is None else case.capture.logits[case.whole.read]
    chance = float(logits.double().softmax(-1).max())
    assert float(case.scorer([case.whole])[0]) == pytest.approx(chance, abs=1e-6)


def test_deletion_when_run_then_equals_the_text_without_the_word() -> None:
    subject = tiny_subject("bert")
    case = case_of(subject, BenchExample("the old dog"))
    shorter = subject.capture("the dog").logits
    assert shorter is not None
    left = case.scorer([case.without([2], "delete")])[0]
    assert left == pytest.approx(float(shorter.double().softmax(-1)[case.answer.output]), abs=1e-6)


def test_inputs_when_asked_twice_then_run_once() -> None:
    case = additive_case()
    edits = [case.without([place], "mask") for place in case.movable]
    first = case.scorer(edits + edits[:2])
    assert (case.scorer(edits + edits[:2]) == first).all()
    assert isinstance(case.scorer.model, Additive)
    assert sum(case.scorer.model.seen) == len(edits)
    assert case.scorer.asked == 2 * len(edits) + 4


def test_meter_when_a_batch_runs_then_counts_its_examples_and_leaves_no_hook() -> None:
    model = tiny_subject("bert").model
    with metered(model) as meter:
        model(input_ids=torch.ones(3, 4, dtype=torch.long))
    model(input_ids=torch.ones(3, 4, dtype=torch.long))
    assert meter.passes == 3
    assert not any(vars(model)[kind] for kind in HOOKS)


def test_protected_when_a_language_model_then_are_special_tokens_and_the_place_that_is_read() -> None:
    case = tiny_case("gpt2")
    assert case.movable == tuple(range(len(case.whole) - 1))
    masked = tiny_case("electra")
    assert not {0, masked.whole.read, len(masked.whole) - 1} & set(masked.movable)


def test_model_when_it_has_a_single_logit_then_is_refused() -> None:
    """A softmax over one number is always one, and over positions it is something else."""
    subject = tw.load(tiny_bert(labels=("one",)).eval(), wordpiece())
    with pytest.raises(tw.InputError, match="a single logit"):
        case_of(subject, BenchExample("the old dog"))
