"""Probes on a trained encoder: the findings of Brunner et al. 2020 on BERT hold."""

import json
from pathlib import Path

import pytest

from tests.real.models import minilm
from thalweg.probing.probe import probe

pytestmark = pytest.mark.real


def test_recovery_when_probed_then_falls_with_depth_and_depends_on_the_angle(shared_data: Path) -> None:
    lines = (shared_data / "mrpc" / "train.jsonl").read_text().splitlines()
    texts = list(dict.fromkeys(json.loads(line)["sentence1"] for line in lines))[:200]
    probes = probe(minilm(), texts, kinds=("identity", "linear"), parts=("whole", "angle", "norm"))
    for kind in ("identity", "linear"):
        cosine, l2 = probes.curve(kind, "cosine"), probes.curve(kind, "l2")
        assert cosine[0].rate == 1.0
        assert cosine[6].high < cosine[3].low
        assert cosine[6].low > l2[6].high
    assert probes.curve("linear", "cosine")[6].rate > 10 * probes.chance["strict"]
    assert probes.curve("linear", "cosine", "angle")[6].low > 5 * probes.curve("linear", "cosine", "norm")[6].high
