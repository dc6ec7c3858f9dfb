"""A bench on real models: a language model asked about pairs of words, and an encoder that answers nothing."""

import pytest

import thalweg as tw
from tests.real.models import minilm, smollm
from thalweg.faithfulness.case import case_of
from thalweg.faithfulness.operators import OPERATORS, Operator

pytestmark = pytest.mark.real
PAIR = tw.BenchExample("The keys to the old cabinet", cue=((4, 8),), good="are", bad="is")


def test_language_model_when_asked_about_a_verb_then_every_method_but_the_slowest_ranks_its_subject() -> None:
    methods = [name for name in tw.list_methods() if name not in ("value_zeroing", "hidden_token_attribution")]
    baselines = ["gradient_norm", "gradient_x_input", "leave_one_out", "occlusion", "random"]
    found = tw.bench(smollm(), [PAIR], [*methods, *baselines], ["cue_rank", "aopc_pad"])
    assert found.failures == {}
    assert len(found.rows) == len(methods) + 5
    assert found.rows[0]["answer"] > 0  # it prefers "are"
    assert all(row["cue_rank"] is not None for row in found.rows)
    alone = next(row for row in found.rows if row["method"] == "leave_one_out")
    without = dict(zip((token.strip() for token in alone["tokens"]), alone["scores"], strict=True))
    assert without["keys"] > 0  # without its subject "are" is less likely


@pytest.mark.parametrize("operator", OPERATORS)
def test_language_model_when_edits_are_batched_then_answers_as_one_by_one(operator: Operator) -> None:
    case, again = case_of(smollm(), PAIR), case_of(smollm(), PAIR)
    edits = [case.without(case.movable[:count], operator) for count in range(len(case.movable) + 1)]
    assert case.scorer(edits) == pytest.approx([float(again.scorer([one])[0]) for one in edits], abs=1e-4)


def test_encoder_when_it_has_no_head_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="does 'encoder'"):
        tw.bench(minilm(), ["the old dog"], ["random"], ["aopc"])
