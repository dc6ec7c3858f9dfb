"""Batches for a model: positions, vocabulary, and the input of a decoder."""

from typing import Any

import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME
from tests.refusals import assert_refused
from tests.tiny import tiny_subject
from thalweg.capture.record import Capture
from thalweg.capture.run import Lengths
from thalweg.models.encode import encode, position_limit

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.fixture(scope="module")
def bart() -> tw.Subject:
    return tiny_subject("bart")


def test_positions_when_all_are_used_then_suffice_and_another_token_is_refused() -> None:
    for name, limit in (("bert", 64), ("roberta", 63), ("gpt2", 64), ("opt", 64)):
        subject = tiny_subject(name)
        capture = subject.capture([5, 6] * (limit // 2) + [7] * (limit % 2))
        assert isinstance(capture, Capture)
        assert len(capture.tokens) == limit
        assert_refused(subject, lambda s=subject, n=limit: s.capture([5] * (n + 1)), tw.InputError, str(limit))


@pytest.mark.parametrize(
    ("target_text", "facts"),
    [
        ("a dog " * 50, ("101 tokens", "64")),
        (5, ("target_text", "int")),
        (["a", "b"], ("2 target texts", "1 inputs")),
        ([5], ("target_text",)),
        ("\udcff", ("\\udcff",)),
    ],
    ids=["too_long", "number", "two", "list_of_number", "surrogate"],
)
def test_target_text_when_unusable_then_is_refused(bart: tw.Subject, target_text: Any, facts: tuple[str, ...]) -> None:
    assert_refused(bart, lambda: bart.capture("the cat", target_text), tw.InputError, *facts)


@pytest.mark.parametrize(
    ("decoder", "facts"),
    [
        ([[5] * 65], ("65 tokens", "64")),
        ([[500]], ("500", "vocabulary of 99")),
        ([[5], [6]], ("decoder_input_ids", "2")),
        ([[]], ("decoder_input_ids", "empty")),
    ],
    ids=["too_long", "out_of_vocabulary", "another_batch", "empty"],
)
def test_decoder_ids_when_unusable_then_are_refused(
    bart: tw.Subject, decoder: list[list[int]], facts: tuple[str, ...]
) -> None:
    inputs = {"input_ids": [[1, 5, 3]], "decoder_input_ids": decoder}
    assert_refused(bart, lambda: bart.capture(inputs), tw.InputError, *facts)


def test_target_text_when_there_are_decoder_ids_too_then_is_refused(bart: tw.Subject) -> None:
    inputs = {"input_ids": [[1, 5, 3]], "decoder_input_ids": [[3, 5]]}
    assert_refused(bart, lambda: bart.capture(inputs, "a dog"), tw.InputError, "not both")


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_target_text_when_there_is_no_decoder_then_is_refused(name: str) -> None:
    subject = tiny_subject(name)
    assert_refused(subject, lambda: subject.capture("the cat", "a dog"), tw.InputError, "target_text")


def test_speech_decoder_when_there_are_too_many_ids_then_is_refused() -> None:
    whisper = BY_NAME["whisper"]
    subject = tw.load(whisper.build())
    inputs = {**whisper.inputs(1, 5), "decoder_input_ids": torch.full((1, 65), 5)}
    assert_refused(subject, lambda: subject.capture(inputs), tw.InputError, "65 tokens", "64")


def test_encoder_decoder_when_there_is_a_target_text_then_reads_it_after_its_start(
    bart: tw.Subject,
) -> None:
    capture = bart.capture("the cat", "a dog")
    assert capture.tokens.pieces == ("[CLS]", "the", "cat", "[SEP]", "[SEP]", "a", "dog")
    with torch.no_grad():
        logits = bart.model(
            input_ids=torch.tensor([[1, 5, 28, 3]]), decoder_input_ids=torch.tensor([[3, 6, 29]])
        ).logits[0]
    torch.testing.assert_close(capture.logits, logits, atol=1e-5, rtol=1e-4)
    assert bart.capture("the cat").tokens.pieces[4:] == ("[SEP]",)


def test_batch_when_encoded_then_has_lengths_and_tokens_without_padding() -> None:
    subject = tiny_subject()
    encoded = encode(subject.model, subject.tokenizer, ["the cat", "a dog likes it"])
    assert encoded.inputs["input_ids"].tolist() == [[1, 5, 28, 3, 0, 0], [1, 6, 29, 36, 16, 3]]
    assert encoded.inputs["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]
    assert encoded.lengths == [Lengths(None, 4), Lengths(None, 6)]
    assert encoded.target is not None
    assert encoded.target[0].pieces == ("[CLS]", "the", "cat", "[SEP]")
    assert (encoded.source, encoded.single) == (None, False)


@pytest.mark.parametrize(
    ("family", "decoder", "limit"),
    [("bert", False, 64), ("roberta", False, 63), ("t5", False, None), ("whisper", True, 64)],
)
def test_position_limit_when_read_then_is_that_of_the_architecture(
    family: str, decoder: bool, limit: int | None
) -> None:
    assert position_limit(BY_NAME[family].build(), decoder) == limit


@pytest.mark.parametrize(("family", "limit"), [("bert", 64), ("roberta", 63), ("gpt2", 64), ("bart", 64)])
def test_texts_when_truncated_then_fill_the_window_and_the_capture_says_so(family: str, limit: int) -> None:
    plain = tiny_subject(family)
    subject = tw.load(plain.model, plain.tokenizer, truncate=True)
    long, short = "the cat runs " * 40, "the cat"
    captures = subject.capture([long, short])
    assert isinstance(captures, list)
    assert len(captures[0].blocks[0].input) == limit
    (note,) = [note for note in captures[0].assumed if "cut" in note]
    assert f"to {limit} tokens" in note
    assert not any("cut" in note for note in captures[1].assumed)
    assert captures[0].tokens.pieces[:3] == subject.capture_one(long[:20]).tokens.pieces[:3]
    assert_refused(plain, lambda: plain.capture([long, short]), tw.InputError, "truncate=True", "--truncate")


def test_pair_when_truncated_then_the_longer_text_is_cut_and_both_stay() -> None:
    subject = tw.load(tiny_subject().model, tiny_subject().tokenizer, truncate=True)
    capture = subject.capture_one(("the cat runs " * 40, "a dog"))
    assert len(capture.tokens) == 64
    assert capture.tokens.pieces[-4:] == ("[SEP]", "a", "dog", "[SEP]")
    assert "the text was cut from 125 to 64 tokens, the positions of the model" in capture.assumed
    assert subject.identity()["truncate"] is True
    assert "truncate" not in tiny_subject().identity()
