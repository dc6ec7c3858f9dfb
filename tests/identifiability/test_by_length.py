"""Pieces of texts, and certificates against their length."""

import json

import pytest

import thalweg as tw
from tests.families import BY_NAME
from tests.identifiability.heads import LONG
from thalweg.identifiability.by_length import pieces_of


def test_trust_by_length_when_text_grows_past_the_value_size_then_part_of_attention_has_no_effect(
    bundled: tw.Subject,
) -> None:
    curve = tw.trust_by_length(bundled, [LONG] * 3, lengths=[8, 17, 64], pieces=2)
    means = [mean for mean, _ in curve.lengths()]
    assert [mean.tokens for mean in means] == [8, 17, 64]
    assert means[0].null_share == means[0].null_share_row_sum == 0
    assert means[0].pearson == means[0].identifiable == 1
    assert means[1].null_share > 0 == means[1].null_share_row_sum  # one more than the value size
    assert means[2].pearson < 0.95
    assert means[2].identifiable == means[2].rows_identifiable == 0
    assert means[2].locally_unique < means[2].rows_locally_unique < 1  # a head counts by its worst row
    assert means[0].movable == 0 < means[2].movable
    json.dumps(curve.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("texts", "options", "fact"),
    [
        (["a witty movie."], {"lengths": [4000]}, "4000"),
        (["a witty movie."], {"lengths": [2]}, "from 3 to"),
        (["a witty movie."], {"lengths": []}, "lengths is empty"),
        (["a"], {}, "lengths"),
        (["a witty movie."], {"lengths": [4], "pieces": 0}, "pieces"),
    ],
)
def test_trust_by_length_when_lengths_do_not_fit_then_the_error_names_them(
    bundled: tw.Subject, texts: list[str], options: dict, fact: str
) -> None:
    with pytest.raises(tw.InputError, match=fact):
        tw.trust_by_length(bundled, texts, **options)


def test_trust_by_length_when_there_is_no_tokenizer_then_the_error_names_it() -> None:
    with pytest.raises(tw.InputError, match="tokenizer"):
        tw.trust_by_length(tw.load(BY_NAME["bert"].build()), ["text"])


def test_pieces_when_cut_then_have_the_lengths_and_special_tokens(bundled: tw.Subject) -> None:
    assert bundled.tokenizer is not None
    pieces = pieces_of(bundled, ["", LONG, LONG], [8, 16], 3)
    assert [len(piece) for piece in pieces] == [8] * 3 + [16] * 3
    for piece in pieces:
        assert piece[0] == bundled.tokenizer.cls_token_id
        assert piece[-1] == bundled.tokenizer.sep_token_id
        assert bundled.tokenizer.sep_token_id not in piece[1:-1]
