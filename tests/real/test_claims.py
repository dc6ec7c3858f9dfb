"""Claims that are tested on packaged models, quickly."""

from pathlib import Path

import numpy as np
import pytest

from papers.claims.reproduce import reproduce
from tests.conftest import unchecked
from tests.real.models import MODELS, minilm, smollm

WITH_PACKAGES = [
    *("rank-bound", "other-attention", "effective-length", "separator"),
    *("identity-depth", "identity-kept", "cosine-probe", "angle", "learnt-probe"),
    *("keys-bind", "early-tokens"),
]
SURE = {"rank-bound", "angle"}  # hold even with the wide intervals of a few examples
SEEN = {"other-attention", "separator", "early-tokens"}  # only their means are on the right side


@pytest.mark.real
def test_reproduce_when_packaged_models_are_there_then_their_claims_are_measured(
    shared_data: Path, tmp_path: Path
) -> None:
    for model in (minilm, smollm):
        model()  # skips or fails if it is missing
    with unchecked():
        ledger = reproduce(WITH_PACKAGES, data=shared_data, models=MODELS, runs=tmp_path, quick=True)
    for entry in ledger.entries:
        assert entry.finding is not None, entry.reason
        assert all(np.isfinite(figure.value.mean) for figure in entry.finding.effects)
        if entry.claim.name in SEEN:
            for effect in entry.finding.effects:
                assert (effect.value.mean > effect.bound) == (effect.side == "above"), effect.describe()
    assert {entry.claim.name for entry in ledger.entries if entry.verdict == "holds"} >= SURE
