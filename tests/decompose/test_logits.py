"""Explained logits: which ones are chosen, and the figures of their sum."""

import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from thalweg.capture.linear import Affine
from thalweg.capture.prove.mlp import residual_stream
from thalweg.capture.target import find_target
from thalweg.decompose.logits import ExplainedLogit, assumptions, explained_logit, require_sum, terms


def logit_of(name: str, target: int | str | None, output: int | None = None, foil: int | None = None) -> ExplainedLogit:
    capture = captured(BY_NAME[name])
    return explained_logit(capture, residual_stream(capture), find_target(capture, target), output, foil)  # pyright: ignore[reportArgumentType]


def by_hand(pooled: bool) -> ExplainedLogit:
    """Two rows of width 2, read by one matrix to two outputs, of which the first is chosen."""
    readout = Affine(torch.tensor([[1.0, 3.0], [2.0, 4.0]]), torch.tensor([0.5, 0.0]))
    logits = 1 if pooled else 2
    return ExplainedLogit((0, 1), (readout,), torch.tensor([[1.0, 0.0]] * logits), torch.zeros(logits), pooled)


def test_slopes_when_the_readout_is_a_matrix_then_are_its_row_and_bias() -> None:
    slope, biases = by_hand(pooled=False).slopes()
    weight = by_hand(False).pieces[0].transposed(torch.tensor([[1.0, 0.0]]))[0]
    assert slope.tolist() == [weight.tolist()] * 2
    assert biases.tolist() == [0.5, 0.5]


def test_rows_when_the_logit_is_pooled_then_are_summed() -> None:
    products = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert by_hand(pooled=False).sum_rows(products).tolist() == [3.0, 7.0]
    assert by_hand(pooled=True).sum_rows(products).tolist() == [10.0]
    assert by_hand(pooled=True).scores(products[:1], 3).tolist() == [[1.0, 2.0]] * 3


def test_logit_when_nothing_is_chosen_then_is_the_models_own() -> None:
    logits = captured(BY_NAME["gpt2"]).logits
    assert logits is not None
    torch.testing.assert_close(logit_of("gpt2", -1).value, logits[-1].max()[None])
    torch.testing.assert_close(logit_of("gpt2", -1, 5, 7).value, (logits[-1, 5] - logits[-1, 7])[None])


def test_logit_when_the_model_reads_one_position_then_only_that_row_is_live() -> None:
    assert logit_of("bert", None).positions == [0]
    assert logit_of("gpt2", 3).positions == [3]


@pytest.mark.parametrize(
    ("output", "foil", "words"), [(99, None, "output.*0 to 2.*99"), (None, -1, "foil.*0 to 2.*-1"), (1, 1, "foil 1")]
)
def test_logit_when_the_choice_is_impossible_then_the_error_names_it(
    output: int | None, foil: int | None, words: str
) -> None:
    with pytest.raises(tw.InputError, match=words):
        logit_of("bert", None, output, foil)


def test_terms_when_they_sum_to_the_logit_then_have_no_error() -> None:
    logit = ExplainedLogit((0,), (), torch.ones(1, 1), torch.tensor([3.0]), False)
    figures = terms(logit, torch.tensor([[1.0, -2.0]]), mlps=torch.tensor([4.0]), own_embedding=torch.tensor([0.0]))
    assert figures == {"logit": 3.0, "from tokens": -1.0, "mlps": 4.0, "own embedding": 0.0, "sum error": 0.0}
    off = terms(logit, torch.tensor([[1.0, -2.0]]), mlps=torch.tensor([0.0]))
    assert off["sum error"] == pytest.approx(4 / 3)  # −1 instead of 3, relative to the largest term
    with pytest.raises(tw.ProofError, match=r"1\.3e\+00"):
        require_sum(off, captured(BY_NAME["bert"]))


def test_assumptions_when_a_classifier_is_asked_for_another_position_then_name_the_single_logit() -> None:
    capture = captured(BY_NAME["bert"])
    elsewhere, own = (find_target(capture, target) for target in (3, None))
    assert len(assumptions(logit_of("bert", None), capture, own)) == 1
    assert "single logit" in assumptions(logit_of("bert", None), capture, elsewhere)[1]
