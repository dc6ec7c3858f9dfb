"""What a run says that it takes is not less than it takes, and does not depend on how many texts there are."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.corpus.folders import sentences
from thalweg.corpus.job import TOKENS_AT_ONCE, make_job
from thalweg.corpus.memory import BATCH, bound, sizes_of

if sys.platform != "linux":
    pytest.skip("peaks of memory are read from /proc", allow_module_level=True)


@pytest.mark.parametrize(
    ("kind", "words", "count", "asked"),
    [
        ("shipped", 300, 12, {"methods": ["attention_rollout", "alti"]}),
        ("shipped", 100, 16, {"methods": ["alti"], "target": "all", "maps": True, "certificate": None}),
        ("language model", 60, 48, {"methods": ["attention_rollout"]}),
    ],
    ids=["long texts", "all targets and maps", "large vocabulary"],
)
def test_memory_when_a_run_is_measured_then_stays_below_what_was_said(
    shipped: tw.Subject, tmp_path: Path, kind: str, words: int, count: int, asked: dict[str, Any]
) -> None:
    assert shipped.tokenizer is not None
    known = sorted(word for word in shipped.tokenizer.get_vocab() if word.isalpha())
    draw = random.Random(0)
    (tmp_path / "texts.txt").write_text("\n".join(" ".join(draw.choices(known, k=words)) for _ in range(count)))
    (tmp_path / "first.txt").write_text("\n".join(sentences(4)))
    arguments = [kind, str(tmp_path / "texts.txt"), str(tmp_path / "first.txt"), str(tmp_path), json.dumps(asked)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.corpus.growth", *arguments], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["failed"] == 0
    assert found["said"] / 100 < found["grown"] < found["said"], "the figure is a bound, and not out of this world"


def test_tokens_when_logits_are_large_then_fewer_go_through_the_model_at_once(shipped: tw.Subject) -> None:
    assert make_job(shipped, ["alti"]).tokens == TOKENS_AT_ONCE
    large = 200_000
    language_model = tw.Subject(shipped.model, shipped.tokenizer, "causal_lm", "as if")
    before, shipped.model.config.vocab_size = shipped.model.config.vocab_size, large
    try:
        job = make_job(language_model, ["alti"])
        assert job.tokens * sizes_of(language_model).per_token <= BATCH < job.tokens * 4 * 5 * large
    finally:
        shipped.model.config.vocab_size = before


def test_bound_when_more_is_asked_for_then_is_larger(shipped: tw.Subject) -> None:
    job = make_job(shipped, ["alti"], certificate=None)
    less = bound(shipped, job, 256)
    for more in ({"target": "all"}, {"maps": True}, {"certificate": "values"}, {"top": 50}):
        asked: dict[str, Any] = {"certificate": None, **more}
        assert bound(shipped, make_job(shipped, ["alti"], **asked), 256) > less
    assert bound(shipped, job, 512) > less
    assert bound(shipped, make_job(shipped, ["alti"], certificate=None, max_tokens=64), 256) < less
