"""`thalweg explain`: targets, parameters of methods, and files."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import thalweg as tw
from tests.command import Run
from tests.tiny import SENTENCE, tiny_subject


def test_explain_when_run_then_shows_tokens_scores_and_receipt(run: Run, model: str) -> None:
    done = run("explain", SENTENCE, "--model", model)
    assert (done.code, done.err) == (0, "")
    assert "alti" in done.out  # the default method
    assert "[CLS] the keys to the cabinet are on the old table . [SEP]" in done.out
    assert "prediction LABEL_" in done.out
    assert "read at [CLS]" in done.out
    assert "checked: parity" in done.out
    assert "assumed:" in run("explain", SENTENCE, "--method", "attention_rollout", "--model", model).out
    result = tw.explain(tw.load(model), SENTENCE)
    for piece, score in result.top(8):
        assert re.search(rf"{re.escape(piece)} +{score:.3f}", done.out)


def test_words_when_switched_on_then_pieces_are_merged(run: Run, model: str) -> None:
    done = run("explain", "the unhappy man", "--words", "--model", model)
    assert done.code == 0
    assert "[CLS] the unhappy man [SEP]" in done.out
    assert "un happy" in run("explain", "the unhappy man", "--model", model).out


def test_target_when_all_then_every_token_is_shown(run: Run, model: str) -> None:
    done = run("explain", "the cat", "--target", "all", "--model", model)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("target ")] == [
        "target 0: [CLS]",
        "target 1: the",
        "target 2: cat",
        "target 3: [SEP]",
    ]


@pytest.mark.parametrize("target", ["5", "-8", "cabinet", "Cabinet"])
def test_target_when_a_position_or_token_then_is_shown(run: Run, model: str, target: str) -> None:
    done = run("explain", SENTENCE, "--target", target, "--model", model)
    assert done.code == 0
    assert "target cabinet" in done.out


@pytest.mark.parametrize(
    "flags",
    [
        ("--layer", "0", "--head", "1", "--residual=0.3"),
        ("--layer=0", "--head=1", "--residual", "0.3"),
        ("--residual", "0.30", "--head", "1", "--layer", "-3"),
    ],
)
def test_parameters_of_a_method_when_used_as_options_then_apply(run: Run, model: str, flags: tuple[str, ...]) -> None:
    done = run("explain", SENTENCE, "--method", "attention_rollout", *flags, "--model", model, "--json", "-")
    assert done.code == 0
    written = json.loads(done.out)
    assert written["params"]["head"] == 1
    assert written["params"]["residual"] == 0.3
    expected = tw.explain(tiny_subject(), SENTENCE, "attention_rollout", layer=0, head=1, residual=0.3)
    np.testing.assert_allclose(written["scores"], expected.scores, atol=1e-6)


def test_parameters_of_a_method_when_before_the_text_then_apply_too(run: Run, model: str) -> None:
    done = run("explain", "--model", model, "--layer", "0", "the cat", "--json", "-")
    assert done.code == 0
    written = json.loads(done.out)
    assert written["params"]["layer"] == 0
    assert written["sources"]["texts"] == ["the cat"]


@pytest.mark.parametrize("text", ["- the film", "-1 is bad"])
def test_text_when_it_begins_with_a_dash_then_can_follow_two_dashes(run: Run, model: str, text: str) -> None:
    done = run("explain", "--model", model, "--json", "-", "--", text)
    assert done.code == 0
    assert json.loads(done.out)["sources"]["texts"] == [text]


def test_json_when_written_to_stdout_then_is_the_only_output(run: Run, model: str) -> None:
    done = run("explain", SENTENCE, "--model", model, "--json", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("\n") == 1
    written = json.loads(done.out, parse_constant=pytest.fail)
    assert written["sources"]["pieces"][1:3] == ["the", "keys"]
    assert np.shape(written["scores"]) == (1, 13)


def test_json_when_written_to_a_file_then_is_the_result(run: Run, model: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = run("explain", "the 😀 cat", "--words", "--model", model, "--json", str(path))
    assert (done.code, done.message) == (0, f"wrote {path}")
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["sources"]["pieces"] == ["[CLS]", "the", "[UNK]", "cat", "[SEP]"]
    assert written["sources"]["unknown"] == [False, False, True, False, False]
    assert written["source_labels"][2] == "[UNK] ‹😀›" and "unknown to the model" in written["warnings"][0]
    outcomes = written["answer"]["outcomes"]
    assert outcomes[0]["name"] == written["prediction"]
    assert sum(outcome["probability"] for outcome in outcomes) == pytest.approx(1)
    assert "\x1b" not in done.out


def test_out_when_used_then_the_file_can_be_loaded(run: Run, model: str, tmp_path: Path) -> None:
    path = tmp_path / "result.safetensors"
    done = run("explain", SENTENCE, "--model", model, "--out", str(path))
    assert done.code == 0
    result, expected = tw.Attribution.load(path), tw.explain(tiny_subject(), SENTENCE)
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-6)
    assert result.provenance["model"] == model
    assert "checked:" in done.out


def test_output_when_named_then_is_explained_and_compared_with_the_foil(run: Run) -> None:
    done = run("explain", "a witty movie.", "--method", "alti_logit", "--output", "negative", "--foil", "positive")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"prediction positive \([\d.]+ %\) before negative", done.out)
    assert re.search(r"for negative \([\d.]+ %\) rather than positive \([\d.]+ %\):", " ".join(done.out.split()))
    wrong = run("explain", "a witty movie.", "--method", "alti_logit", "--output", "negativ")
    assert wrong.code == 2 and "did you mean 'negative'?" in wrong.err
