"""GlobEnc: shares in each layer, and what it assumes of pre-norm models."""

import numpy as np

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME


def explained(name: str, **params: object) -> tw.Attribution:
    return tw.explain(tw.load(BY_NAME[name].build()), captured(BY_NAME[name]), "globenc", 0, **params)


def test_globenc_when_layers_are_normalised_then_rows_are_shares_in_each() -> None:
    result = explained("bert", normalise_layers=True)
    assert result.per_layer is not None
    np.testing.assert_allclose(result.per_layer.sum(-1), 1, atol=1e-6)


def test_globenc_when_the_model_is_pre_norm_then_normalises_layers_and_says_so() -> None:
    plain, normalised = explained("llama"), explained("llama", normalise_layers=True)
    assert np.array_equal(plain.scores, normalised.scores)
    assert "pre-norm" in plain.receipt.assumed[0]
    assert "deviation" in explained("bert").receipt.assumed[0]
