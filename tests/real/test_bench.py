"""A bench on real models: a language model with pairs of words, and an encoder without a prediction."""

import pytest

import thalweg as tw
from tests.real.models import minilm, smollm
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import make_case

pytestmark = pytest.mark.real
PAIR = tw.BenchExample("The keys to the old cabinet", cue=((4, 8),), good="are", bad="is")
TOO_SLOW = ("value_zeroing", "hidden_token_attribution")  # minutes on one core


def test_language_model_when_it_predicts_a_verb_then_every_method_but_the_slowest_ranks_its_subject() -> None:
    methods = [name for name in tw.list_methods() if name not in TOO_SLOW]
    result = tw.bench(smollm(), [PAIR], [*methods, "random"], ["cue_rank", "aopc_pad"])
    assert result.failures == {}
    assert sorted(row["method"] for row in result.rows) == sorted([*methods, "random"])
    assert result.rows[0]["answer"] > 0  # it prefers "are"
    assert all(row["cue_rank"] is not None for row in result.rows)
    left_out = next(row for row in result.rows if row["method"] == "leave_one_out")
    scores = dict(zip((token.strip() for token in left_out["tokens"]), left_out["scores"], strict=True))
    assert scores["keys"] > 0  # without its subject "are" is less likely


@pytest.mark.parametrize("operator", OPERATORS)
def test_language_model_when_edits_are_batched_then_answers_as_one_by_one(operator: Operator) -> None:
    case, alone = make_case(smollm(), PAIR), make_case(smollm(), PAIR)
    edits = [case.without(case.removable[:count], operator) for count in range(len(case.removable) + 1)]
    assert case.scorer(edits) == pytest.approx([float(alone.scorer([edit])[0]) for edit in edits], abs=1e-4)


def test_encoder_when_it_has_no_head_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match=r"'encoder'.*supports classifiers"):
        tw.bench(minilm(), ["the old dog"], ["random"], ["aopc"])
