"""Probes on a trained encoder: what Brunner et al. 2020 say of BERT can be seen."""

import json
from pathlib import Path

import pytest

from tests.real.models import minilm
from thalweg.probing.probe import probe

pytestmark = pytest.mark.real


def test_identity_of_tokens_when_probed_then_falls_with_depth_and_sits_in_the_angle(shared_data: Path) -> None:
    lines = (shared_data / "mrpc" / "train.jsonl").read_text().splitlines()
    texts = list(dict.fromkeys(json.loads(line)["sentence1"] for line in lines))[:200]
    found = probe(minilm(), texts, kinds=("identity", "linear"), parts=("whole", "angle", "norm"))
    for kind in ("identity", "linear"):
        cosine, l2 = found.curve(kind, "cosine"), found.curve(kind, "l2")
        assert cosine[0].rate == 1.0
        assert cosine[6].high < cosine[3].low
        assert cosine[6].low > l2[6].high
    assert found.curve("linear", "cosine")[6].rate > 10 * found.chance["strict"]
    assert found.curve("linear", "cosine", "angle")[6].low > 5 * found.curve("linear", "cosine", "norm")[6].high
