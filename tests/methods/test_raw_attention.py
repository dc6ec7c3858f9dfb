"""Raw attention: rows of one block, and targets that the block does not have."""

import numpy as np
import pytest

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME


def explained(name: str, target: int, **params: object) -> tw.Attribution:
    return tw.explain(tw.load(BY_NAME[name].build()), captured(BY_NAME[name]), "raw_attention", target, **params)


def test_raw_attention_when_a_layer_and_a_head_are_chosen_then_is_their_row() -> None:
    weights = captured(BY_NAME["bert"]).blocks[1].weights()
    np.testing.assert_allclose(explained("bert", 3, layer=1).scores[0], weights.mean(0)[3], atol=1e-6)
    np.testing.assert_allclose(explained("bert", 3, layer=1, head=2).scores[0], weights[2, 3], atol=1e-6)


def test_raw_attention_when_the_block_belongs_to_the_other_sequence_then_the_error_names_its_queries() -> None:
    source = captured(BY_NAME["bart"]).blocks[0].queries
    with pytest.raises(tw.InputError, match=rf"{source.start} to {source.stop - 1}.*got {source.stop}"):
        explained("bart", source.stop, layer=0)


@pytest.mark.parametrize(("params", "words"), [({"layer": 3}, "layer 3"), ({"head": 4}, "0 to 3.*got 4")])
def test_raw_attention_when_there_is_no_such_layer_or_head_then_is_refused(params: dict, words: str) -> None:
    with pytest.raises(tw.InputError, match=words):
        explained("bert", 0, **params)


def test_raw_attention_when_a_sink_takes_a_part_then_rows_sum_to_less_than_one() -> None:
    result = explained("gpt_oss", -1)
    assert 0 < result.scores.sum() < 1
    assert any("sink" in sentence for sentence in result.receipt.assumed)
