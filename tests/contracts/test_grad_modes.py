"""Every method and public function gives the same numbers under `torch.no_grad()` and `torch.inference_mode()`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import SENTENCE, tiny_subject
from thalweg.faithfulness.registry import list_baselines, list_metrics

MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}
METHODS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tw.list_methods()),
    ("attention_rollout", {"weights": "attention_gradient"}),
    ("hidden_token_attribution", {"rtol": None}),
    ("hidden_token_attribution", {"rtol": None, "norm": "spectral"}),
]
TEXTS = [f"the {old} {cat} sees {it}." for old in ("old", "new", "bad") for cat in ("cat", "dog") for it in ("it", "a")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("method", "params"), METHODS)
def test_method_when_gradients_are_disabled_around_it_then_scores_are_the_same(
    method: str, params: dict[str, Any], mode: str
) -> None:
    subject = tiny_subject()
    expected = tw.explain(subject, SENTENCE, method, **params).scores
    ids = BY_NAME["bert"].inputs(1, 6)
    from_ids = tw.explain(subject, ids, method, **params).scores
    with MODES[mode]():
        capture = subject.capture(SENTENCE)
        np.testing.assert_allclose(tw.explain(subject, capture, method, **params).scores, expected, rtol=1e-5)
        fresh = tw.load(subject.model, subject.tokenizer)  # learns the model in this mode
        inside = {name: value.clone() for name, value in ids.items()}
        np.testing.assert_allclose(tw.explain(fresh, inside, method, **params).scores, from_ids, rtol=1e-5)
    np.testing.assert_allclose(tw.explain(subject, capture, method, **params).scores, expected, rtol=1e-5)


FUNCTIONS: dict[str, Callable[[tw.Subject, Path], Any]] = {
    "load": lambda subject, folder: tw.explain(tw.load(), "a witty movie.", "hidden_token_attribution", 0),
    "compare": lambda subject, folder: tw.compare(subject, SENTENCE, ["alti", "hidden_token_attribution"]),
    "mixing": lambda subject, folder: tw.mixing(subject, TEXTS[:2]),
    "trust": lambda subject, folder: tw.trust(subject, SENTENCE),
    "trust_head": lambda subject, folder: tw.trust_head(subject, SENTENCE, 0, 0),
    "trust_by_length": lambda subject, folder: tw.trust_by_length(subject, TEXTS, lengths=[6], pieces=1),
    "alternatives": lambda subject, folder: tw.alternatives(subject, SENTENCE, 0, 0),
    "intervals": lambda subject, folder: tw.intervals(subject, SENTENCE, 0, 0),
    "report": lambda subject, folder: tw.report(subject, SENTENCE, ["hidden_token_attribution"]).to_html(),
    "generate": lambda subject, folder: tw.report(subject, "the", ["alti"], generate=2),
    "probe": lambda subject, folder: tw.probe(subject, TEXTS, kinds=["mlp"], metrics=["l2"]),
    "bench": lambda subject, folder: (
        tw.bench(subject, TEXTS[:1], ["alti", *list_baselines()], [*list_metrics()], other_seeds=[subject]).failures
    ),
    "run_corpus": lambda subject, folder: tw.run_corpus(subject, _written(folder), folder / "corpus"),
    "train": lambda subject, folder: tw.train(
        tw.LabelledTexts(tuple(TEXTS), tuple("ab" * (len(TEXTS) // 2))),
        folder / "model",
        tw.TrainingPlan(epochs=1, width=8, heads=1, layers=1),
    ),
}


def _written(folder: Path) -> Path:
    file = folder / "texts.txt"
    file.write_text("\n".join(TEXTS[:2]))
    return file


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_when_gradients_are_disabled_around_it_then_runs(name: str, mode: str, tmp_path: Path) -> None:
    subject = tiny_subject("gpt2" if name == "generate" else "bert")
    with MODES[mode]():
        result = FUNCTIONS[name](subject, tmp_path)
    if name == "bench":
        assert not {failure.first_error for failure in result.values() if "Error:" in failure.first_error}


def test_functions_when_counted_then_are_all_public_ones() -> None:
    public = {name for name in tw.__all__ if name[0].islower() and name != "list_methods"} - {"explain"}
    assert public <= set(FUNCTIONS)


def test_model_when_it_was_built_in_inference_mode_then_is_refused_with_the_reason() -> None:
    with torch.inference_mode():
        model = BY_NAME["bert"].build()
    with pytest.raises(tw.ModelError, match=r"inference_mode.*outside"):
        tw.load(model)
