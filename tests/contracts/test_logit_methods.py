"""Parts of a logit: for every family that is served they add up, and who is not served is listed with the reason."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.contracts.test_methods import REFUSALS, subject_of
from tests.families import BY_NAME, PROVED, Family, text
from tests.tiny import snapshot
from thalweg.capture.record import Capture

LOGIT_METHODS = ("decompx", "alti_logit")
SERVED = [(m, f) for m in LOGIT_METHODS for f in PROVED if f.name not in REFUSALS[m]]
REFUSED = [(m, f) for m in (*LOGIT_METHODS, "globenc") for f in PROVED if f.name in REFUSALS[m]]
TOLERANCE = 1e-5


def name_of(one: object) -> str:
    return getattr(one, "name", str(one))


def figures(family: Family, method: str, target: object = -1, **params: object) -> Mapping[str, float]:
    return tw.explain(subject_of(family), captured(family), method, target, **params).receipt.figures  # pyright: ignore[reportArgumentType]


def test_families_when_counted_then_most_are_served() -> None:
    with_logits = [f for f in PROVED if captured(f).logits is not None and f.task not in ("seq2seq", "speech")]
    assert len(with_logits) >= 55
    assert sum(method == "alti_logit" for method, _ in SERVED) >= len(with_logits) - 2
    assert sum(method == "decompx" for method, _ in SERVED) >= len(with_logits) - 8


@pytest.mark.parametrize(("method", "family"), SERVED, ids=name_of)
def test_parts_when_added_up_then_equal_the_logit(method: str, family: Family) -> None:
    capture = captured(family)
    assert capture.logits is not None
    result = tw.explain(subject_of(family), capture, method, -1)
    logits = capture.logits if capture.logits.dim() == 1 else capture.logits[-1]
    found = result.receipt.figures
    assert found["sum error"] < TOLERANCE
    assert found["logit"] == pytest.approx(float(logits.max()), rel=1e-6)
    assert found["from tokens"] == pytest.approx(result.scores.sum(), rel=1e-6)
    named = {"from tokens", "no token", "mlps", "biases", "own embedding"}
    total = sum(value for name, value in found.items() if name in named)
    assert total == pytest.approx(float(logits.max()), abs=1e-4)
    if method == "decompx":
        assert found["no token"] == 0
        apart = figures(family, method, biases="apart")
        assert apart["from tokens"] + apart["no token"] == pytest.approx(float(logits.max()), abs=1e-4)


@pytest.mark.parametrize(("method", "family"), REFUSED, ids=name_of)
def test_family_when_refused_then_the_error_gives_the_reason_that_is_listed(method: str, family: Family) -> None:
    with pytest.raises(tw.InputError, match=REFUSALS[method][family.name]):
        tw.explain(subject_of(family), captured(family), method, -1)


@pytest.mark.parametrize("method", LOGIT_METHODS)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "dinov2"])
def test_foil_when_given_then_scores_are_the_difference_of_two_explanations(method: str, name: str) -> None:
    family = BY_NAME[name]
    params = {"biases": "apart"} if method == "decompx" else {}
    one, other, both = (
        tw.explain(subject_of(family), captured(family), method, -1, **chosen, **params).scores
        for chosen in ({"output": 1}, {"output": 2}, {"output": 1, "foil": 2})
    )
    np.testing.assert_allclose(both, one - other, atol=1e-5)


@pytest.mark.parametrize("method", LOGIT_METHODS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "phi", "falcon"])
def test_all_positions_when_asked_for_then_each_has_its_own_logit_and_nothing_from_later(
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
    ("params", "said"),
    [({"output": 99}, "from 0 to 2"), ({"foil": -1}, "from 0 to 2"), ({"output": 1, "foil": 1}, "choose another")],
)
def test_output_when_there_is_none_such_then_the_error_says_which_there_are(
    method: str, params: dict[str, int], said: str
) -> None:
    with pytest.raises(tw.InputError, match=said):
        figures(BY_NAME["bert"], method, None, **params)


@pytest.mark.parametrize("method", LOGIT_METHODS)
@pytest.mark.parametrize("name", ["bert", "llama", "gemma2"])
def test_half_precision_when_explained_then_the_error_is_within_its_rounding(method: str, name: str) -> None:
    subject = tw.load(BY_NAME[name].build().bfloat16())
    assert tw.explain(subject, text(1, 12), method, -1).receipt.figures["sum error"] < 0.03


@pytest.mark.parametrize("method", [*LOGIT_METHODS, "globenc"])
def test_model_when_explained_then_is_left_as_found(method: str) -> None:
    family = BY_NAME["bert"]
    subject = subject_of(family)
    capture = subject.capture(family.inputs(1, 12))
    assert isinstance(capture, Capture)
    before = snapshot(subject.model)
    tw.explain(subject, capture, method)
    assert snapshot(subject.model) == before


@pytest.mark.parametrize("method", LOGIT_METHODS)
def test_weights_when_changed_after_the_capture_then_the_proof_fails(method: str) -> None:
    family = BY_NAME["gpt2"]
    subject = subject_of(family)
    capture = subject.capture(family.inputs(1, 12))
    assert isinstance(capture, Capture)
    with torch.no_grad():
        subject.model.get_parameter("transformer.h.1.mlp.c_proj.bias").add_(1)
    with pytest.raises(tw.ProofError):
        tw.explain(subject, capture, method, -1)


def test_decompx_when_biases_stay_apart_on_one_token_then_all_is_that_tokens_or_no_ones() -> None:
    subject = subject_of(BY_NAME["gpt2"])
    result = tw.explain(subject, text(1, 1), "decompx", -1)
    assert result.scores[0, 0] == pytest.approx(result.receipt.figures["logit"], rel=1e-5)


def test_globenc_when_layers_are_normalised_then_rows_are_shares_in_each() -> None:
    family = BY_NAME["bert"]
    result = tw.explain(subject_of(family), captured(family), "globenc", 0, normalise_layers=True)
    assert result.per_layer is not None
    np.testing.assert_allclose(result.per_layer.sum(-1), 1, atol=1e-6)
