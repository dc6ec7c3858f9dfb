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
SURE = {"rank-bound", "angle"}  # also by a few examples, whose intervals are wide
SEEN = {"other-attention", "separator", "early-tokens"}  # by their means


@pytest.mark.real
def test_reproduce_when_packaged_models_are_there_then_their_claims_are_measured(
    shared_data: Path, tmp_path: Path
) -> None:
    for model in (minilm, smollm):
        model()  # which says so if it is missing
    with unchecked():
        found = reproduce(WITH_PACKAGES, data=shared_data, models=MODELS, runs=tmp_path, quick=True)
    for one in found.entries:
        assert one.found is not None, one.why
        assert all(np.isfinite(figure.value.mean) for figure in one.found.effects)
    assert {one.claim.name for one in found.entries if one.verdict == "holds"} >= SURE
    for one in found.entries:
        if one.claim.name in SEEN and one.found is not None:
            for effect in one.found.effects:
                assert (effect.value.mean > effect.bound) == (effect.side == "above"), effect.said()
