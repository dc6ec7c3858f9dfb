"""Terminal views of probes: the figures of the result are on the screen."""

import re

from rich.console import Console

import thalweg as tw
from tests.tiny import SENTENCE
from thalweg.probing.result import Probes


def shown(result: object) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(result)
    return capture.get()


def test_probes_when_shown_then_have_a_row_per_probe_and_layer_and_the_chance(probes: Probes) -> None:
    text = shown(probes)
    rate = probes.curve("mlp", "cosine")[3]
    assert re.search(rf" 3 +{rate.rate:.3f} +{rate.low:.3f}–{rate.high:.3f}", text)
    assert "linear, l2, angle only" in text
    assert f"chance {probes.chance['strict']:.3g}" in text
    assert f"{probes.counts['test tokens']} tokens of 9 held-out sentences" in text


def test_recovery_when_shown_then_marks_recovered_tokens_and_names_the_others(bert: tw.Subject, probes: Probes) -> None:
    recovery = probes.apply(bert, SENTENCE, "linear", "l2", "whole")
    text = shown(recovery)
    assert "probe linear, l2, whole" in text
    assert text.count("●") == 1 + int((recovery.hits == 1).sum())  # one in the heading
