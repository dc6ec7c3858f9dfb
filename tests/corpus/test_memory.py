"""The memory bound of a run: real runs stay below it, and it grows with what is computed."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.corpus.folders import sentences
from thalweg.corpus.job import make_job
from thalweg.corpus.memory import memory_bound

linux = pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")


@linux
@pytest.mark.parametrize(
    ("kind", "words", "count", "options"),
    [
        ("bundled", 300, 12, {"methods": ["attention_rollout", "alti"]}),
        ("bundled", 100, 16, {"methods": ["alti"], "target": "all", "maps": True, "certificate": None}),
        ("language model", 60, 48, {"methods": ["attention_rollout"]}),
    ],
    ids=["long texts", "all targets and maps", "large vocabulary"],
)
def test_memory_when_a_run_is_measured_then_stays_below_the_bound(
    bundled: tw.Subject, tmp_path: Path, kind: str, words: int, count: int, options: dict[str, Any]
) -> None:
    assert bundled.tokenizer is not None
    known = sorted(word for word in bundled.tokenizer.get_vocab() if word.isalpha())
    draw = random.Random(0)
    (tmp_path / "texts.txt").write_text("\n".join(" ".join(draw.choices(known, k=words)) for _ in range(count)))
    (tmp_path / "first.txt").write_text("\n".join(sentences(4)))
    arguments = [kind, str(tmp_path / "texts.txt"), str(tmp_path / "first.txt"), str(tmp_path), json.dumps(options)]
    process = subprocess.run(
        [sys.executable, "-m", "tests.corpus.growth", *arguments], capture_output=True, text=True, check=True
    )
    measured = json.loads(process.stdout)
    assert measured["failed"] == 0
    assert measured["bound"] / 100 < measured["grown"] < measured["bound"], "an upper bound, and a useful one"


def test_bound_when_more_is_computed_then_is_larger(bundled: tw.Subject) -> None:
    job = make_job(bundled, ["alti"], certificate=None)
    smallest = memory_bound(bundled, job, 256)
    for change in ({"target": "all"}, {"maps": True}, {"certificate": "values"}, {"top": 50}):
        options: dict[str, Any] = {"certificate": None, **change}
        assert memory_bound(bundled, make_job(bundled, ["alti"], **options), 256) > smallest
    assert memory_bound(bundled, job, 512) > smallest
    assert memory_bound(bundled, make_job(bundled, ["alti"], certificate=None, max_tokens=64), 256) < smallest
