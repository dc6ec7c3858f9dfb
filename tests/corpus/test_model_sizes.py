"""Sizes of a model, and how many tokens fit into a batch."""

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.corpus.job import MAX_BATCH_TOKENS, make_job
from thalweg.corpus.model_sizes import BATCH_BYTES, ModelSizes, max_batch_tokens, sizes_of


def test_bytes_per_token_when_sizes_are_small_then_follow_the_formula() -> None:
    assert ModelSizes(layers=1, width=1, heads=1, logits=0, number_bytes=4).bytes_per_token == 4 * (14 + 16)
    assert ModelSizes(layers=2, width=10, heads=1, logits=3, number_bytes=8).bytes_per_token == 8 * (280 + 160 + 12)


def test_sizes_when_every_position_has_logits_then_include_the_vocabulary() -> None:
    classifier, masked = sizes_of(tiny_subject("bert")), sizes_of(tiny_subject("gpt2"))
    assert classifier.logits == 0
    assert masked.logits == tiny_subject("gpt2").model.config.vocab_size
    assert sizes_of(tiny_subject("t5")).layers == 3 * tiny_subject("t5").model.config.num_hidden_layers


def test_batch_tokens_when_a_token_takes_much_memory_then_are_fewer_but_at_least_one() -> None:
    small = ModelSizes(layers=1, width=1, heads=1, logits=0, number_bytes=4)
    assert max_batch_tokens(small, 2048) == 2048
    half = ModelSizes(layers=0, width=0, heads=1, logits=BATCH_BYTES // 16, number_bytes=2)
    assert max_batch_tokens(half, 2048) == 2
    assert max_batch_tokens(ModelSizes(0, 0, 1, logits=BATCH_BYTES, number_bytes=4), 2048) == 1


def test_batch_tokens_when_the_vocabulary_is_large_then_stay_below_the_limit(bundled: tw.Subject) -> None:
    assert make_job(bundled, ["alti"]).batch_tokens == MAX_BATCH_TOKENS
    large = 200_000
    language_model = tw.Subject(bundled.model, bundled.tokenizer, "causal_lm", "some name")
    before, bundled.model.config.vocab_size = bundled.model.config.vocab_size, large
    try:
        tokens = make_job(language_model, ["alti"]).batch_tokens
        assert tokens * sizes_of(language_model).bytes_per_token <= BATCH_BYTES < tokens * 4 * 5 * large
    finally:
        bundled.model.config.vocab_size = before
