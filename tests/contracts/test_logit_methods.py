"""Methods that explain a logit: their parts sum to it, if they say so, for every family that is not refused."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.contracts.test_methods import (
    FAMILY_REFUSALS,
    METHODS,
    SERVED,
    WITHOUT_LOGITS,
    kind_of,
    label,
    methods_with,
    served,
    subject_of,
)
from tests.families import BY_NAME, PROVED, Family, text
from thalweg.capture.record import Capture

LOGIT_METHODS = methods_with(lambda traits: traits.explains_logit)
SIGNED_METHODS = methods_with(lambda traits: traits.explains_logit and traits.signed)
SUMMING_METHODS = methods_with(lambda traits: traits.sums_to_logit)
LOGIT_CASES = [(method, family) for method, family in SERVED if method in SUMMING_METHODS]
TERMS = {"from tokens", "no token", "mlps", "biases", "own embedding"}
TOLERANCE = 1e-5


def keeps_biases_apart(method: str) -> bool:
    return "biases" in {option.name for option in METHODS[method].options}


def figures(family: Family, method: str, target: object = -1, **params: object) -> Mapping[str, float]:
    return tw.explain(subject_of(family), captured(family), method, target, **params).receipt.figures  # pyright: ignore[reportArgumentType]


def test_families_when_counted_then_all_with_logits_are_served_but_those_listed() -> None:
    with_logits = [f for f in PROVED if f.name not in WITHOUT_LOGITS and kind_of(f) == "single sequence"]
    assert len(with_logits) >= 55
    for method in SUMMING_METHODS:
        count = sum(name == method for name, _ in LOGIT_CASES)
        assert count == len(with_logits) - len(FAMILY_REFUSALS.get(method, {}))
        assert count >= len(with_logits) - 8


@pytest.mark.parametrize(("method", "family"), LOGIT_CASES, ids=label)
def test_parts_when_summed_then_equal_the_logit(method: str, family: Family) -> None:
    capture = captured(family)
    assert capture.logits is not None
    result = tw.explain(subject_of(family), capture, method, -1)
    logits = capture.logits if capture.logits.dim() == 1 else capture.logits[-1]
    terms = result.receipt.figures
    assert terms["sum error"] < TOLERANCE
    assert terms["logit"] == pytest.approx(float(logits.max()), rel=1e-6)
    assert terms["from tokens"] == pytest.approx(result.scores.sum(), rel=1e-6)
    total = sum(value for name, value in terms.items() if name in TERMS)
    assert total == pytest.approx(float(logits.max()), abs=1e-4)
    if keeps_biases_apart(method):
        assert terms["no token"] == 0
        apart = figures(family, method, biases="apart")
        assert apart["from tokens"] + apart["no token"] == pytest.approx(float(logits.max()), abs=1e-4)


@pytest.mark.parametrize(("method", "name"), served(SIGNED_METHODS, ["bert", "gpt2", "llama", "vit", "dinov2"]))
def test_foil_when_set_then_scores_are_the_difference_of_two_explanations(method: str, name: str) -> None:
    family = BY_NAME[name]
    params = {"biases": "apart"} if keeps_biases_apart(method) else {}
    first, second, both = (
        tw.explain(subject_of(family), captured(family), method, -1, **chosen, **params).scores
        for chosen in ({"output": 1}, {"output": 2}, {"output": 1, "foil": 2})
    )
    np.testing.assert_allclose(both, first - second, atol=1e-5)


@pytest.mark.parametrize("method", LOGIT_METHODS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "phi", "falcon"])
def test_all_positions_when_explained_then_each_has_its_own_logit_and_nothing_from_later_tokens(
    method: str, name: str
) -> None:
    family = BY_NAME[name]
    everything = tw.explain(subject_of(family), captured(family), method, "all")
    last = tw.explain(subject_of(family), captured(family), method, -1)
    np.testing.assert_allclose(everything.scores[-1], last.scores[0], atol=1e-5)
    assert np.abs(np.triu(everything.scores, 1)).max() == 0
    repeated = tw.explain(subject_of(family), captured(family), method, [3, 3, 5]).scores
    np.testing.assert_allclose(repeated, everything.scores[[3, 3, 5]], atol=1e-5)


@pytest.mark.parametrize("method", LOGIT_METHODS)
@pytest.mark.parametrize(
    ("params", "words"),
    [({"output": 99}, "from 0 to 2"), ({"foil": -1}, "from 0 to 2"), ({"output": 1, "foil": 1}, "choose another")],
)
def test_output_when_the_model_does_not_have_it_then_the_error_names_the_range(
    method: str, params: dict[str, int], words: str
) -> None:
    with pytest.raises(tw.InputError, match=words):
        figures(BY_NAME["bert"], method, None, **params)


@pytest.mark.parametrize("method", SUMMING_METHODS)
@pytest.mark.parametrize("name", ["bert", "llama", "gemma2"])
def test_half_precision_when_explained_then_the_error_is_within_its_rounding(method: str, name: str) -> None:
    subject = tw.load(BY_NAME[name].build().bfloat16())
    assert tw.explain(subject, text(1, 12), method, -1).receipt.figures["sum error"] < 0.03


@pytest.mark.parametrize("method", SUMMING_METHODS)
def test_weights_when_changed_after_the_capture_then_the_proof_fails(method: str) -> None:
    family = BY_NAME["gpt2"]
    subject = subject_of(family)
    capture = subject.capture(family.inputs(1, 12))
    assert isinstance(capture, Capture)
    with torch.no_grad():
        subject.model.get_parameter("transformer.h.1.mlp.c_proj.bias").add_(1)
    with pytest.raises(tw.ProofError):
        tw.explain(subject, capture, method, -1)
