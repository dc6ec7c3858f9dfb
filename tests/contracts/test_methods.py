"""One battery over every registered method and every family: a method that declares a trait is tested for it."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME, PROVED, Family
from tests.tiny import snapshot
from thalweg.aggregate.max_flow import max_flow
from thalweg.aggregate.rollout import cumulative
from thalweg.capture.record import Capture
from thalweg.methods.registry import ModelKind, Traits, model_kind

METHODS = tw.list_methods()

# Families that a method does not understand, and a word of the reason that the error must give. What follows from
# traits (kinds of model, logits) is derived from them in `refusal`; nothing else may be refused.
_EXPERTS = {family.name: "(mlp|moe).*is not a linear map" for family in PROVED if "moe" in family.traits}
# gemma4: each head's values have a norm of their own; olmo: its norm does not say its epsilon
_SHAPES = {"olmo": "how the logits are made"}
_VALUES = {"gemma4_text": "leads to values"}
WITHOUT_LOGITS = {"nomic_bert", "clip_text_model", "clip_vision_model", "siglip_vision_model"}
_PIXELS = {f.name: "no token ids" for f in PROVED if f.task == "vision" and f.name not in WITHOUT_LOGITS}
FAMILY_REFUSALS: dict[str, dict[str, str]] = {
    "decompx": {**_EXPERTS, **_SHAPES, **_VALUES},
    "alti_logit": _SHAPES,
    "leave_one_out": _PIXELS,
}


def kind_of(family: Family) -> ModelKind:
    return "encoder-decoder" if family.task in ("seq2seq", "speech") else "single sequence"


def refusal(method: str, family: Family) -> str | None:
    """The reason why a method must refuse a family, as a pattern; None if it must not."""
    traits = METHODS[method].traits
    if kind_of(family) not in traits.serves:
        return f"{method} does not support {kind_of(family)} models"
    if traits.explains_logit and family.name in WITHOUT_LOGITS:
        return f"{method} explains a logit, but the model returns no logits"
    return FAMILY_REFUSALS.get(method, {}).get(family.name)


def methods_with(trait: Callable[[Traits], object]) -> list[str]:
    """The methods with this trait; an empty list would make a test vacuous."""
    names = [name for name, method in METHODS.items() if trait(method.traits)]
    assert names
    return names


def served(methods: list[str], families: list[str]) -> list[tuple[str, str]]:
    return [(method, name) for method in methods for name in families if refusal(method, BY_NAME[name]) is None]


CASES = [(method, family) for method in METHODS for family in PROVED]
SERVED = [case for case in CASES if refusal(*case) is None]
REFUSED = [case for case in CASES if refusal(*case) is not None]


def label(value: object) -> str:
    return str(getattr(value, "name", value))


def subject_of(family: Family) -> tw.Subject:
    return tw.load(family.build())


def attribution(family: Family, method: str, target: object = -1, **params: Any) -> tw.Attribution:
    return tw.explain(subject_of(family), captured(family), method, target, **params)  # pyright: ignore[reportArgumentType]


def shares(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(-1, keepdims=True)


def test_cases_when_counted_then_cover_everything_registered() -> None:
    assert set(METHODS) >= {"raw_attention", "attention_rollout", "attention_flow", "alti"}
    assert len(SERVED) + len(REFUSED) == len(METHODS) * len(PROVED)
    assert len(REFUSED) < 0.1 * len(CASES)
    assert set(FAMILY_REFUSALS) <= set(METHODS)
    assert {name for table in FAMILY_REFUSALS.values() for name in table} <= set(BY_NAME)


def test_families_when_captured_then_have_the_kind_and_the_logits_that_refusals_are_derived_from() -> None:
    assert {kind_of(family) for family in PROVED} == {"single sequence", "encoder-decoder"}
    for family in PROVED:
        assert model_kind(captured(family)) == kind_of(family)
        assert (captured(family).logits is None) == (family.name in WITHOUT_LOGITS)


@pytest.mark.parametrize(("method", "family"), SERVED, ids=label)
def test_method_when_run_then_gives_finite_scores_of_its_traits_and_a_receipt(method: str, family: Family) -> None:
    traits = METHODS[method].traits
    result = attribution(family, method)
    assert result.scores.shape == (1, len(captured(family).tokens))
    assert np.isfinite(result.scores).all()
    parity = result.receipt.checks["parity"]
    assert parity.errors
    assert parity.worst <= parity.allowed
    if not traits.signed:
        assert result.scores.min() >= 0
    if traits.rows_sum_to_one and "sinks" not in family.traits:
        assert result.row_sum_error < 1e-5


@pytest.mark.parametrize(("method", "family"), REFUSED, ids=label)
def test_method_when_it_cannot_explain_a_family_then_refuses_with_the_reason(method: str, family: Family) -> None:
    kind = tw.ProofError if family.name in _VALUES and method == "decompx" else tw.InputError
    with pytest.raises(kind, match=refusal(method, family)):
        attribution(family, method)


@pytest.mark.parametrize("method", methods_with(lambda traits: traits.signed))
def test_method_when_signed_then_some_scores_are_negative(method: str) -> None:
    family = BY_NAME["llama"]
    scores = tw.explain(subject_of(family), family.inputs(1, 48), method, "all").scores  # more tokens than dimensions
    assert scores.min() < 0 < scores.max()


STEPS = methods_with(lambda traits: traits.layer_maps == "steps")


@pytest.mark.parametrize(("method", "name"), served(STEPS, ["bert", "llama", "gpt_oss", "bart"]))
def test_layer_maps_when_they_are_steps_then_chain_to_the_scores(method: str, name: str) -> None:
    chain, capture = METHODS[method].traits.chain, captured(BY_NAME[name])
    result = attribution(BY_NAME[name], method, "all")
    assert result.chain == chain
    assert result.per_layer is not None
    count = len(capture.tokens)
    assert result.per_layer.shape == (len(capture.blocks), count, count)
    combined = cumulative(result.per_layer)[-1] if chain == "product" else max_flow(result.per_layer).value
    np.testing.assert_allclose(shares(combined), shares(result.scores), atol=1e-5)


@pytest.mark.parametrize("method", methods_with(lambda traits: traits.layer_maps == "cumulative"))
def test_layer_maps_when_they_are_cumulative_then_end_with_the_scores(method: str) -> None:
    capture = captured(BY_NAME["bert"])
    whole_way, last_layer = (
        attribution(BY_NAME["bert"], method, "all", start=start) for start in ("embeddings", "layer")
    )
    for result in (whole_way, last_layer):
        assert result.chain is None
        assert result.per_layer is not None
        assert result.per_layer.shape == (len(capture.blocks), len(capture.tokens), len(capture.tokens))
        np.testing.assert_allclose(result.per_layer[-1], result.scores, atol=1e-6)
    np.testing.assert_allclose(whole_way.per_layer[0], last_layer.per_layer[0], atol=0.05)  # pyright: ignore[reportOptionalSubscript]
    assert np.abs(whole_way.scores - last_layer.scores).max() > 0.05


@pytest.mark.parametrize("method", methods_with(lambda traits: traits.layer_maps is None))
def test_layer_maps_when_there_are_none_then_mixing_refuses_the_method(method: str) -> None:
    family = BY_NAME["bert"]
    assert attribution(family, method, "all").chain is None
    with pytest.raises(tw.InputError, match=f"{method} has no map for every layer"):
        tw.mixing(subject_of(family), captured(family), [method])


@pytest.mark.parametrize(("cost", "most"), [("low", 0), ("moderate", 1)])
def test_cost_when_it_is_not_high_then_the_model_runs_no_more_than_once_again(cost: str, most: int) -> None:
    for method in methods_with(lambda traits: traits.cost == cost):
        capture, passes = captured(BY_NAME["bert"]), []

        def replay(*arguments: Any, capture: Capture = capture, passes: list[int] = passes, **options: Any) -> Any:
            passes.append(1)
            return capture.replay(*arguments, **options)

        tw.explain(subject_of(BY_NAME["bert"]), replace(capture, replay=replay), method)
        assert len(passes) <= most, method


@pytest.mark.parametrize("method", methods_with(lambda traits: traits.explains_logit))
def test_params_when_a_logit_is_explained_then_name_the_output_and_the_foil(method: str) -> None:
    assert {field.name for field in fields(METHODS[method].params)} >= {"output", "foil"}


@pytest.mark.parametrize(
    ("method", "name"), served(list(METHODS), ["llama", "gpt2", "mistral", "phi", "gptj", "gpt_oss"])
)
def test_method_when_the_model_is_causal_then_nothing_comes_from_later_tokens(method: str, name: str) -> None:
    scores = attribution(BY_NAME[name], method, "all").scores
    assert np.abs(np.triu(scores, 1)).max() == 0
    if METHODS[method].traits.rows_sum_to_one:
        assert scores[0, 0] > 0


@pytest.mark.parametrize("method", METHODS)
def test_method_when_run_twice_then_gives_the_same(method: str) -> None:
    first, second = (attribution(BY_NAME["bert"], method) for _ in range(2))
    assert np.array_equal(first.scores, second.scores)
    assert first.params == second.params


@pytest.mark.parametrize(("method", "name"), served(list(METHODS), ["bert", "llama", "bart"]))
def test_method_when_run_on_an_example_of_a_padded_batch_then_gives_what_it_gives_alone(method: str, name: str) -> None:
    family = BY_NAME[name]
    subject = subject_of(family)
    long, short = family.inputs(1, 9), family.inputs(1, 6)
    if "decoder_input_ids" in long:
        long = {**long, "decoder_input_ids": short["decoder_input_ids"]}
    pad = torch.zeros(1, 3, dtype=torch.long)
    batch = {
        key: torch.cat(
            [long[key], torch.cat([pad, short[key]], 1) if key in ("input_ids", "attention_mask") else short[key]]
        )
        for key in long
    }
    together = subject.capture(batch)
    assert isinstance(together, list)
    alone = subject.capture(short)
    assert isinstance(alone, Capture)
    expected = tw.explain(subject, alone, method, -1).scores
    np.testing.assert_allclose(tw.explain(subject, together[1], method, -1).scores, expected, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_model_when_explained_then_is_left_unchanged(method: str) -> None:
    family = BY_NAME["bert"]
    subject = subject_of(family)
    capture = subject.capture(family.inputs(1, 12))
    assert isinstance(capture, Capture)
    before = snapshot(subject.model)
    tw.explain(subject, capture, method)
    assert snapshot(subject.model) == before
