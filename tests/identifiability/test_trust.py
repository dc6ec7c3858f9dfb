"""Certificates, intervals and alternatives of real passes."""

import json

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME, PROVED, Family
from tests.tiny import tiny_subject
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.by_length import pieces_of
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.replacement import prove

each = pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)
LONG = (
    "a gorgeous, witty, seductive movie that never quite manages to make its characters as interesting as the places "
    "in which they are shown, alas, but still."
)


@each
def test_certificate_when_a_family_is_captured_then_checks_hold_and_verdicts_follow_the_figures(family: Family) -> None:
    certificate = certify(captured(family))
    assert len(certificate.heads) == sum(block.attention.heads for block in captured(family).blocks)
    for check in certificate.receipt.checks.values():
        assert check.worst <= check.allowed
    json.dumps(certificate.to_dict(), allow_nan=False)
    for one in certificate.heads:
        block = captured(family).blocks[one.layer]
        assert one.ambiguity <= one.null_dimension
        assert max(one.row_ambiguity) == one.ambiguity
        assert one.row_ambiguity.count(0) == one.rows_determined
        assert (one.rows_determined == one.queries) == (one.ambiguity == 0) == (one.verdict == "identifiable")
        if one.rows_determined_given_keys is not None:
            assert one.rows_determined_given_keys >= one.rows_determined
        if one.verdict == "identifiable given the keys":
            assert one.ambiguity_given_keys == 0
        assert one.rank <= min(one.value_size, one.keys)
        assert 0 <= one.null_share_row_sum <= one.null_share + 1e-6 <= 1 + 2e-6
        if not block.attention.has_sinks:
            assert sum(share.raw for share in one.received.values()) == pytest.approx(1, abs=1e-5)
            assert sum(share.effective_row_sum for share in one.received.values()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "mistral", "t5", "bloom"])
def test_certificate_when_figures_are_recomputed_from_whole_maps_then_are_the_same(name: str) -> None:
    from scipy.stats import rankdata

    capture = captured(BY_NAME[name])
    for one in certify(capture).heads:
        block = capture.blocks[one.layer]
        space, weights = value_space(block), block.weights()
        effective = space.effective(slice(None), weights)[one.head].numpy()
        raw, seen = weights[one.head].numpy(), space.supports.numpy()
        away = np.linalg.norm(raw - effective) / np.linalg.norm(raw)
        assert one.null_share == pytest.approx(away, abs=1e-5)
        if away > 1e-3:
            assert one.pearson == pytest.approx(np.corrcoef(raw[seen], effective[seen])[0, 1], abs=1e-3)
            rows = [
                np.corrcoef(rankdata(raw[i, row]), rankdata(effective[i, row]))[0, 1]
                for i, row in enumerate(seen)
                if row.sum() > 1 and np.ptp(raw[i, row]) > 0 and np.ptp(effective[i, row]) > 0
            ]
            assert one.spearman == pytest.approx(np.mean(rows), abs=1e-3)


def test_certificate_when_text_is_short_then_every_head_can_be_read(shipped: tw.Subject) -> None:
    found = tw.trust(shipped, "a witty movie.")
    assert found.counts() == {"identifiable": 40, "identifiable given the keys": 0, "not identifiable": 0}
    assert found.most_misleading() == ()
    assert "40 of 40 heads can be read" in found.summary()
    assert {one.longest for one in found.heads} == {17}
    assert all(one.pearson == one.spearman == 1 and one.null_share == 0 for one in found.heads)


def test_certificate_when_text_is_long_then_no_head_can_be_read_outright(shipped: tw.Subject) -> None:
    found = tw.trust(shipped, LONG)
    assert found.counts()["identifiable"] == 0
    worst = found.most_misleading(2)
    assert worst[0].null_share_row_sum >= worst[1].null_share_row_sum > 0.3
    head = found.head(0, 0)
    assert (head.rank, head.rank_with_ones, head.longest) == (16, 17, 17)
    assert head.ambiguity == len(found.tokens) - 17
    assert {"[CLS]", "[SEP]", "punctuation", "content"} == set(head.received)
    assert found.head(-1, 9) is found.heads[-1]
    with pytest.raises(tw.InputError, match="head 99"):
        found.head(0, 99)
    with pytest.raises(tw.InputError, match="layer 9"):
        found.head(9, 0)


def test_certificate_when_the_example_was_padded_in_a_batch_then_is_the_same() -> None:
    subject = tiny_subject()
    texts = ["the old table.", "the keys to the cabinet are on the old table, and the cat sees it!"]
    batch = subject.capture(texts)
    assert isinstance(batch, list)
    for text, capture in zip(texts, batch, strict=True):
        alone, together = tw.trust(subject, text), tw.trust(subject, capture)
        assert [one.rank for one in alone.heads] == [one.rank for one in together.heads]
        assert [one.null_share for one in alone.heads] == pytest.approx(
            [one.null_share for one in together.heads], abs=1e-4
        )


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bloom", "gpt_oss", "vit", "deepseek_v3"])
def test_alternatives_when_a_head_is_ambiguous_then_attention_moves_and_the_model_does_not(name: str) -> None:
    family = BY_NAME[name]
    capture = captured(family)
    subject = tw.load(family.build())
    heads = [one for one in certify(capture).heads if one.ambiguity > 0]
    assert heads, "twelve tokens and small heads leave some freedom"
    for chosen in (heads[0], heads[-1]):
        found = tw.alternatives(subject, capture, chosen.layer, chosen.head)
        one = found.polytope
        assert one is not None
        assert one.total_variation.max() > 0.05
        assert (one.total_variation <= one.at_most + 1e-6).all()
        assert one.head_error < 1e-4
        assert one.moved <= one.allowed < one.control
        assert one.proved
        rows = one.weights.sum(1)
        assert one.weights.min() >= 0
        assert rows.max() <= 1 + 1e-6
        if not capture.blocks[chosen.layer].attention.has_sinks:
            assert rows == pytest.approx(1, abs=1e-6)
        json.dumps(found.to_dict(), allow_nan=False)


def test_alternatives_when_keys_are_wider_than_values_then_one_is_a_softmax_of_them() -> None:
    family = BY_NAME["deepseek_v3"]
    capture = captured(family)
    attention = capture.blocks[0].attention
    assert attention.key is not None
    assert attention.key.shape[-1] > attention.value.shape[-1]
    heads = [one for one in certify(capture).heads if one.ambiguity_given_keys]
    found = tw.alternatives(tw.load(family.build()), capture, heads[0].layer, heads[0].head)
    one = found.keys
    assert one is not None
    assert one.total_variation.max() > 0.05
    assert one.moved <= one.allowed
    assert one.proved


def test_prove_when_the_map_changes_the_output_then_the_model_says_so() -> None:
    capture = captured(BY_NAME["bert"])
    weights = capture.blocks[0].weights()[0]
    reversed_rows = weights.flip(-1)
    proof = prove(capture, 0, 0, {"original": weights, "reversed": reversed_rows})
    assert proof.moved["original"] <= proof.allowed
    assert proof.moved["reversed"] > 10 * proof.allowed


def test_alternatives_when_logits_are_capped_then_follow_the_bent_way() -> None:
    family = BY_NAME["gemma2"]
    capture, subject = captured(family), tw.load(family.build())
    heads = [one for one in certify(capture).heads if one.ambiguity_given_keys]
    assert heads
    assert capture.blocks[0].attention.softcap is not None
    found = [tw.alternatives(subject, capture, one.layer, one.head) for one in heads]
    assert any(one.keys is not None for one in found)
    for one in found:
        if one.keys is not None:
            assert one.keys.head_error < 1e-5
            assert one.keys.moved <= one.keys.allowed


@pytest.mark.parametrize(("head", "top"), [(True, None), (0.0, None), (0, 2.5)])
@pytest.mark.usefixtures("as_a_user")
def test_intervals_when_given_no_whole_number_then_says_so(shipped: tw.Subject, head: object, top: object) -> None:
    with pytest.raises(tw.InputError, match=r"was (asked for|given)"):
        tw.intervals(shipped, "a witty movie.", 0, head, top=top)  # pyright: ignore[reportArgumentType]


def test_alternatives_when_the_model_is_too_coarse_to_tell_then_are_not_called_proved() -> None:
    family = BY_NAME["bert"]
    model = family.build()
    torch.nn.Module.to(model, torch.bfloat16)
    subject = tw.load(model)
    capture = subject.capture(family.inputs(1, 12))
    for layer in range(3):
        one = tw.alternatives(subject, capture, layer, 0).polytope  # pyright: ignore[reportArgumentType]
        assert one is not None
        assert one.head_error < 1e-3
        assert one.proved == (one.moved <= one.allowed < one.control)


def test_alternatives_when_nothing_is_free_then_says_why(shipped: tw.Subject) -> None:
    found = tw.alternatives(shipped, "a witty movie.", 0, 0)
    assert found.polytope is None
    assert found.keys is None
    assert "its attention is determined" in found.missing["polytope"]


def test_intervals_when_text_is_long_then_hold_the_weights_and_the_solvers_word(shipped: tw.Subject) -> None:
    found = tw.intervals(shipped, LONG, 1, 2, target=[0, 5], top=3)
    assert len(found.weights) == 6
    assert found.targets.tolist() == [0, 0, 0, 5, 5, 5]
    assert (found.low <= found.weights).all()
    assert (found.weights <= found.high).all()
    assert found.widths.min() > 0.05
    assert found.statuses == {"optimal": 12}
    gap = found.receipt.checks["duality_gap"]
    assert gap.worst <= gap.allowed
    assert found.receipt.figures["programs optimal"] == 12
    json.dumps(found.to_dict(), allow_nan=False)


def test_intervals_when_all_weights_are_asked_for_then_come_row_by_row() -> None:
    family = BY_NAME["gpt2"]
    capture = captured(family)
    found = tw.intervals(tw.load(family.build()), capture, 0, 0, target=-1)
    assert len(found.weights) == len(capture.tokens)
    assert sorted(found.sources.tolist()) == list(range(len(capture.tokens)))
    assert found.weights.sum() == pytest.approx(1, abs=1e-5)
    assert (np.diff(found.weights) <= 0).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layer": 9, "head": 0}, "layer 9"),
        ({"layer": 0, "head": 10}, "head 10"),
        ({"layer": 0, "head": -1}, "head -1"),
        ({"layer": 0, "head": 0, "top": 0}, "top was given 0"),
        ({"layer": 0, "head": 0, "target": 99}, "target 99"),
    ],
)
def test_intervals_when_asked_for_what_is_not_there_then_says_so(shipped: tw.Subject, given: dict, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        tw.intervals(shipped, "a witty movie.", **given)


def test_intervals_when_the_target_is_no_query_of_the_block_then_says_so() -> None:
    family = BY_NAME["t5"]
    capture = captured(family)
    decoder = next(number for number, block in enumerate(capture.blocks) if block.role == "cross")
    with pytest.raises(tw.InputError, match="is a query of"):
        tw.intervals(tw.load(family.build()), capture, decoder, 0, target=0)
    assert tw.intervals(tw.load(family.build()), capture, decoder, 0, target=-1, top=1).sources[0] < 12


def test_trust_by_length_when_text_grows_past_the_value_size_then_effect_is_lost(shipped: tw.Subject) -> None:
    curve = tw.trust_by_length(shipped, [LONG] * 3, lengths=[8, 17, 64], pieces=2)
    means = [mean for mean, _ in curve.lengths()]
    assert [mean.tokens for mean in means] == [8, 17, 64]
    assert means[0].null_share == means[0].null_share_row_sum == 0
    assert means[0].pearson == means[0].readable == 1
    assert means[1].null_share > 0 == means[1].null_share_row_sum  # one more than the value size
    assert means[2].pearson < 0.95
    assert means[2].readable == 0
    json.dumps(curve.to_dict(), allow_nan=False)


def test_pieces_when_cut_then_have_the_lengths_and_special_tokens(shipped: tw.Subject) -> None:
    assert shipped.tokenizer is not None
    pieces = pieces_of(shipped, ["", LONG, LONG], [8, 16], 3)
    assert [len(piece) for piece in pieces] == [8] * 3 + [16] * 3
    for piece in pieces:
        assert piece[0] == shipped.tokenizer.cls_token_id
        assert piece[-1] == shipped.tokenizer.sep_token_id
        assert shipped.tokenizer.sep_token_id not in piece[1:-1]


@pytest.mark.parametrize(
    ("texts", "options", "said"),
    [
        (["a witty movie."], {"lengths": [4000]}, "4000"),
        (["a witty movie."], {"lengths": [2]}, "expected lengths from 3"),
        (["a witty movie."], {"lengths": []}, "lengths is empty"),
        (["a"], {}, "lengths"),
        (["a witty movie."], {"lengths": [4], "pieces": 0}, "pieces"),
    ],
)
def test_trust_by_length_when_lengths_do_not_fit_then_says_so(
    shipped: tw.Subject, texts: list[str], options: dict, said: str
) -> None:
    with pytest.raises(tw.InputError, match=said):
        tw.trust_by_length(shipped, texts, **options)


def test_trust_by_length_when_there_is_no_tokenizer_then_says_so() -> None:
    with pytest.raises(tw.InputError, match="tokenizer"):
        tw.trust_by_length(tw.load(BY_NAME["bert"].build()), ["text"])


@pytest.mark.parametrize("constraint", ["none", "row_sum"])
def test_effective_attention_when_it_is_the_weights_of_rollout_then_multiplies_signed_maps(constraint: str) -> None:
    family = BY_NAME["bert"]
    capture, subject = captured(family), tw.load(family.build())
    name = "effective" if constraint == "none" else "effective_row_sum"
    found = tw.explain(subject, capture, "attention_rollout", "all", weights=name)
    product = torch.eye(len(capture.tokens)).double()
    for layer in range(len(capture.blocks)):
        single = tw.explain(subject, capture, "effective_attention", "all", layer=layer, constraint=constraint)
        own = torch.from_numpy(single.scores.copy())
        product = (0.5 * torch.eye(len(own)) + 0.5 * own) @ product
    np.testing.assert_allclose(found.scores, product.numpy(), atol=1e-5)
    assert any("effective" in one for one in found.receipt.assumed)
    if constraint == "row_sum":
        assert found.row_sum_error < 1e-5


def test_effective_attention_when_it_is_the_capacity_of_flow_then_nothing_flows_below_zero() -> None:
    family = BY_NAME["bert"]
    capture, subject = captured(family), tw.load(family.build())
    found = tw.explain(subject, capture, "attention_flow", -1, weights="effective")
    assert found.scores.min() >= 0
    assert found.row_sum_error < 1e-6
    assert any("negative" in one for one in found.receipt.assumed)
    with pytest.raises(tw.InputError, match="measured residual"):
        tw.explain(subject, capture, "attention_rollout", -1, weights="effective", residual="measured")
    with pytest.raises(tw.InputError, match="effective weights have none"):
        tw.explain(subject, capture, "attention_rollout", -1, weights="effective", receptive_field=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_certificate_when_in_another_precision_then_checks_hold(dtype: torch.dtype) -> None:
    family = BY_NAME["llama"]
    model = family.build()
    torch.nn.Module.to(model, dtype)
    capture = tw.load(model).capture(family.inputs(1, 12))
    assert isinstance(capture, tw.Capture)
    certificate = certify(capture)
    for check in certificate.receipt.checks.values():
        assert check.worst <= check.allowed
    single = certify(captured(family))
    assert [one.rank for one in certificate.heads] == [one.rank for one in single.heads]


def test_tokens_when_sorted_by_kind_then_marks_are_punctuation_and_specials_keep_their_names() -> None:
    subject = tiny_subject()
    capture = subject.capture("the cat, it runs ! un")
    assert isinstance(capture, tw.Capture)
    words = ("content", "content", "punctuation", "content", "content", "punctuation", "content")
    assert capture.tokens.kinds() == ("[CLS]", *words, "[SEP]")
    causal = tiny_subject("gpt2").capture("the keys.")
    assert isinstance(causal, tw.Capture)
    assert causal.tokens.kinds()[0] == "first token"
    assert causal.tokens.kinds()[-1] == "punctuation"
