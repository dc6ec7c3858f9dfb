"""`thalweg compare`: several methods side by side."""

import json

import thalweg as tw
from tests.command import Run
from tests.tiny import SENTENCE, tiny_subject


def test_compare_when_run_then_shows_both_methods_and_their_agreement(run: Run, model: str) -> None:
    done = run("compare", SENTENCE, "--model", model)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert "raw_attention" in lines
    assert "attention_rollout" in lines
    agreement = tw.compare(tiny_subject(), SENTENCE).agreement()[0, 1]
    assert f"{agreement:+.2f}" in done.out
    assert "+1.00" in done.out


def test_compare_when_written_as_json_then_holds_every_method(run: Run, model: str) -> None:
    methods = "raw_attention, attention_rollout"
    done = run("compare", "the unhappy cat", "--methods", methods, "--words", "--model", model, "--json", "-")
    assert (done.code, done.err) == (0, "")
    written = json.loads(done.out)
    assert written["methods"] == ["raw_attention", "attention_rollout"]
    for attribution in written["attributions"]:
        assert attribution["sources"]["pieces"] == ["[CLS]", "the", "unhappy", "cat", "[SEP]"]
