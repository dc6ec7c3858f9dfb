"""One battery over every registered method and every family."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME, PROVED, Family
from thalweg.capture.record import Capture

METHODS = tuple(tw.list_methods())

# Who refuses whom, and a word of the reason that the error must give. Nothing else may refuse.
_PAIR = {family.name: "encoder-decoder" for family in PROVED if family.task in ("seq2seq", "speech")}
_NO_LOGITS = dict.fromkeys(
    ("nomic_bert", "clip_text_model", "clip_vision_model", "siglip_vision_model"), "the model returns none"
)
_EXPERTS = dict.fromkeys(
    ("mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "gpt_oss", "deepseek_v3"), "(mlp|moe).*is not a linear map"
)
# gemma4: a third sum with per-layer inputs ends each layer; olmo: its norm does not say its epsilon
_SHAPES = {"gemma4_text": "no module's output joins", "olmo": "how the logits are made"}
REFUSALS: dict[str, dict[str, str]] = {
    "decompx": {**_PAIR, **_NO_LOGITS, **_EXPERTS, **_SHAPES},
    "alti_logit": {**_PAIR, **_NO_LOGITS, **_SHAPES},
    "globenc": dict.fromkeys(_PAIR, "for one sequence"),
}
CASES = [(method, family) for method in METHODS for family in PROVED]
cases = pytest.mark.parametrize(("method", "family"), CASES, ids=lambda one: getattr(one, "name", one))


def attribution(family: Family, method: str, target: object = -1) -> tw.Attribution:
    capture = captured(family)
    return tw.explain(subject_of(family), capture, method, target)  # pyright: ignore[reportArgumentType]


def subject_of(family: Family) -> tw.Subject:
    return tw.load(family.build())


def test_cases_when_counted_then_cover_everything_registered() -> None:
    assert set(METHODS) >= {"raw_attention", "attention_rollout", "attention_flow", "alti"}
    assert len(CASES) == len(METHODS) * len(PROVED)
    assert set(REFUSALS) <= set(METHODS)
    assert {name for table in REFUSALS.values() for name in table} <= set(BY_NAME)


@cases
def test_method_when_run_then_gives_finite_scores_and_a_receipt(method: str, family: Family) -> None:
    reason = REFUSALS.get(method, {}).get(family.name)
    if reason is not None:
        with pytest.raises(tw.InputError, match=reason):
            attribution(family, method)
        return
    result = attribution(family, method)
    count = len(captured(family).tokens)
    assert result.scores.shape == (1, count)
    assert np.isfinite(result.scores).all()
    parity = result.receipt.checks["parity"]
    assert parity.errors
    assert parity.worst <= parity.allowed
    if "rows sum to one" in tw.list_methods()[method].guarantee and "sinks" not in family.traits:
        assert result.row_sum_error < 1e-5
        assert result.scores.min() >= 0


@pytest.mark.parametrize("method", [m for m in METHODS if "rows" in tw.list_methods()[m].guarantee or "flow" in m])
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "phi", "gptj", "gpt_oss"])
def test_method_when_the_model_is_causal_then_nothing_comes_from_later_tokens(method: str, name: str) -> None:
    scores = attribution(BY_NAME[name], method, "all").scores
    assert np.abs(np.triu(scores, 1)).max() == 0
    assert scores[0, 0] > 0


@pytest.mark.parametrize("method", METHODS)
def test_method_when_run_twice_then_gives_the_same(method: str) -> None:
    first, second = (attribution(BY_NAME["bert"], method) for _ in range(2))
    assert np.array_equal(first.scores, second.scores)
    assert first.params == second.params


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["bert", "llama", "bart"])
def test_method_when_run_on_an_example_of_a_padded_batch_then_gives_what_it_gives_alone(method: str, name: str) -> None:
    family = BY_NAME[name]
    if name in REFUSALS.get(method, {}):
        return
    subject = subject_of(family)
    long, short = family.inputs(1, 9), family.inputs(1, 6)
    if "decoder_input_ids" in long:
        long = {**long, "decoder_input_ids": short["decoder_input_ids"]}
    pad = torch.zeros(1, 3, dtype=torch.long)
    batch = {
        key: torch.cat(
            [long[key], torch.cat([pad, short[key]], 1) if key in ("input_ids", "attention_mask") else short[key]]
        )
        for key in long
    }
    together = subject.capture(batch)
    assert isinstance(together, list)
    alone = subject.capture(short)
    assert isinstance(alone, Capture)
    expected = tw.explain(subject, alone, method, -1).scores
    np.testing.assert_allclose(tw.explain(subject, together[1], method, -1).scores, expected, atol=2e-5, rtol=1e-3)
