"""Input in every form that a user may have: read as meant, or refused with the facts."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.families import BY_NAME
from tests.refusals import assert_refused
from tests.tiny import tiny_subject
from thalweg.capture.record import Capture

IDS = [1, 5, 28, 13, 3]  # [CLS] the cat is [SEP]
pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.fixture(scope="module")
def bert() -> tw.Subject:
    return tiny_subject()


@pytest.fixture(scope="module")
def gpt2() -> tw.Subject:
    return tiny_subject("gpt2")


@pytest.fixture(scope="module")
def vit() -> tw.Subject:
    return tw.load(BY_NAME["vit"].build())


def ids(*rows: list[int]) -> Tensor:
    return torch.tensor([*rows])


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "empty_text": ("", ("''", "empty")),
    "white_space": (" \n\t ", ("' \\n\\t '", "empty")),
    "dropped_characters": ("\u200d\x00", ("'\\u200d\\x00'", "only special tokens")),
    "pair_with_empty_half": (("the cat", " "), ("('the cat', ' ')", "empty")),
    "list_with_empty_text": (["the cat", ""], ("''", "empty")),
    "special_ids_only": ([1, 3], ("special tokens",)),
    "special_text_only": ("[CLS] [SEP]", ("special tokens",)),
    "too_long": ("the " * 70, ("72 tokens", "64")),
    "too_long_ids": ([5] * 65, ("65 tokens", "64")),
    "too_long_in_a_batch": (["the cat", "the " * 70], ("72 tokens", "64")),
    "id_out_of_vocabulary": ([1, 5, 99, 3], ("99", "vocabulary of 99")),
    "id_negative": ([1, -5, 3], ("-5", "vocabulary of 99")),
    "id_out_of_vocabulary_in_a_batch": ([[1, 5], [1, 500]], ("500", "vocabulary of 99")),
    "empty_list": ([], ("empty",)),
    "empty_tuple": ((), ("empty",)),
    "list_of_empty_list": ([[5, 6], []], ("empty",)),
    "texts_and_ids": (["the cat", 5], ("mixture", "only texts")),
    "ids_and_lists": ([5, [6]], ("mixture",)),
    "none": (None, ("NoneType", "expected a text")),
    "number": (5, ("int", "expected a text")),
    "bytes": (b"\x05\x06\x07", ("bytes", "expected a text")),
    "bytearray": (bytearray([5, 6]), ("bytearray", "expected a text")),
    "set": ({5, 6}, ("set", "expected a text")),
    "list_of_none": ([None], ("NoneType",)),
    "lone_surrogate": ("the \udcff cat", ("\\udcff",)),
    "float_tensor": (torch.rand(3), ("float32", "(3,)", "integers")),
    "complex_tensor": (torch.ones(3, dtype=torch.complex64), ("complex64", "integers")),
    "tensor_of_no_dimension": (torch.tensor(5), ("shape ()", "[length]")),
    "tensor_of_three_dimensions": (torch.full((1, 2, 3), 5), ("(1, 2, 3)", "[batch, length]")),
    "empty_tensor": (torch.empty(0, dtype=torch.long), ("empty",)),
    "batch_of_empty_rows": (torch.empty(2, 0, dtype=torch.long), ("empty", "(2, 0)")),
    "empty_mapping": ({}, ("[]", "input_ids")),
    "mapping_without_ids": ({"attention_mask": ids([1, 1])}, ("attention_mask", "input_ids")),
    "mapping_of_pixels": ({"pixel_values": torch.rand(1, 3, 16, 16)}, ("pixel_values",)),
    "mapping_of_none": ({"input_ids": None}, ("input_ids", "None")),
    "mapping_of_text": ({"input_ids": "the cat"}, ("input_ids", "str")),
    "mapping_of_ragged_lists": ({"input_ids": [[5, 6], [7]]}, ("input_ids", "length")),
    "mapping_of_float_ids": ({"input_ids": torch.rand(1, 3)}, ("input_ids", "float32")),
    "mapping_of_one_id": ({"input_ids": torch.tensor(5)}, ("input_ids", "()")),
    "mapping_of_three_dimensions": (
        {"input_ids": torch.full((2, 3, 4), 5)},
        ("input_ids", "(2, 3, 4)"),
    ),
    "mapping_of_empty_ids": ({"input_ids": torch.empty(1, 0, dtype=torch.long)}, ("empty",)),
    "mask_of_another_shape": (
        {"input_ids": ids([5, 6, 7]), "attention_mask": ids([1, 1])},
        ("attention_mask", "(1, 2)", "(1, 3)"),
    ),
    "mask_with_a_hole": (
        {"input_ids": ids([5, 6, 7]), "attention_mask": ids([1, 0, 1])},
        ("attention_mask", "one run"),
    ),
    "mask_all_zero": (
        {"input_ids": ids([5, 6, 7], [5, 6, 7]), "attention_mask": ids([1, 1, 1], [0, 0, 0])},
        ("attention_mask",),
    ),
    "token_types_out_of_range": (
        {"input_ids": ids([1, 5, 3]), "token_type_ids": ids([0, 9, 0])},
        ("token_type_ids",),
    ),
    "positions_out_of_range": (
        {"input_ids": ids([1, 5, 3]), "position_ids": ids([0, 1, 700])},
        ("position_ids",),
    ),
    "embeddings_with_nan": (
        {"input_ids": ids([5, 6]), "inputs_embeds": torch.full((1, 2, 32), torch.nan)},
        ("inputs_embeds", "NaN"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_input_when_unusable_then_the_error_has_the_facts(bert: tw.Subject, name: str) -> None:
    inputs, facts = BAD[name]
    assert_refused(bert, lambda: bert.capture(inputs), tw.InputError, *facts)


def test_text_when_there_is_no_tokenizer_then_is_refused_but_ids_work() -> None:
    subject = tw.load(BY_NAME["bert"].build())
    assert_refused(subject, lambda: subject.capture("the cat"), tw.InputError, "tokenizer")
    assert isinstance(subject.capture(IDS), Capture)


BAD_PIXELS = {
    "nan": (torch.full((1, 3, 16, 16), torch.nan), ("pixel_values", "NaN")),
    "infinite": (torch.full((1, 3, 16, 16), torch.inf), ("pixel_values", "infinite")),
    "no_batch": (torch.rand(3, 16, 16), ("pixel_values", "(3, 16, 16)")),
    "another_size": (torch.rand(1, 3, 20, 20), ("20",)),
    "another_number_of_channels": (torch.rand(1, 1, 16, 16), ("channel",)),
    "empty": (torch.empty(0, 3, 16, 16), ("pixel_values", "empty")),
}


@pytest.mark.parametrize("name", BAD_PIXELS)
def test_pixels_when_unusable_then_are_refused(vit: tw.Subject, name: str) -> None:
    pixels, facts = BAD_PIXELS[name]
    assert_refused(vit, lambda: vit.capture({"pixel_values": pixels}), tw.InputError, *facts)


def test_ids_when_the_model_sees_images_then_are_refused(vit: tw.Subject) -> None:
    assert_refused(vit, lambda: vit.capture([5, 6]), tw.InputError, "pixel_values")


def capture_one(subject: tw.Subject, inputs: Any, *more: Any) -> Capture:
    capture = subject.capture(inputs, *more)
    assert isinstance(capture, Capture)
    return capture


def capture_all(subject: tw.Subject, inputs: Any) -> list[Capture]:
    captures = subject.capture(inputs)
    assert isinstance(captures, list)
    return captures


def assert_same_numbers(capture: Capture, expected: Capture) -> None:
    assert capture.tokens.ids == expected.tokens.ids
    for block, wanted in zip(capture.blocks, expected.blocks, strict=True):
        torch.testing.assert_close(block.output, wanted.output, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(block.weights(), wanted.weights(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(capture.logits, expected.logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "inputs",
    [
        "The cat is",
        IDS,
        tuple(IDS),
        torch.tensor(IDS),
        torch.tensor(IDS, dtype=torch.int32),
        {"input_ids": IDS},
        {"input_ids": [IDS], "attention_mask": [[1] * 5]},
    ],
    ids=["text", "list", "tuple", "tensor", "int32", "mapping", "mapping_of_one"],
)
def test_example_when_in_any_form_then_has_the_same_numbers(bert: tw.Subject, inputs: Any) -> None:
    with torch.no_grad():
        logits = bert.model(input_ids=torch.tensor([IDS])).logits[0]
    capture = capture_one(bert, inputs)
    assert capture.tokens.pieces[1:4] in (("the", "cat", "is"), ("The", "cat", "is"))
    torch.testing.assert_close(capture.logits, logits, atol=1e-5, rtol=1e-4)
    assert_same_numbers(capture, capture_one(bert, "the cat is"))


def test_batch_when_in_any_form_then_has_the_numbers_of_each_alone(bert: tw.Subject) -> None:
    texts = ["the cat is", "a dog likes the old man"]
    expected = [capture_one(bert, text) for text in texts]
    assert bert.tokenizer is not None
    right = bert.tokenizer(texts, padding=True, return_tensors="pt")
    left = bert.tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    assert left["input_ids"][0, 0] == 0  # really padded to the left
    lists = bert.tokenizer(texts)["input_ids"]
    for inputs in (texts, right, left, dict(left), lists):
        for capture, wanted in zip(capture_all(bert, inputs), expected, strict=True):
            assert_same_numbers(capture, wanted)


def test_left_padding_when_the_model_is_causal_then_changes_nothing(gpt2: tw.Subject) -> None:
    texts = ["the key", "the keys to the door"]
    expected = [capture_one(gpt2, text) for text in texts]
    assert gpt2.tokenizer is not None
    batch = gpt2.tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    for capture, wanted in zip(capture_all(gpt2, batch), expected, strict=True):
        assert_same_numbers(capture, wanted)


def test_tokenizer_output_when_it_is_of_one_text_then_gives_one_capture(bert: tw.Subject) -> None:
    assert bert.tokenizer is not None
    expected = capture_one(bert, "the cat is")
    forms: list[dict[str, Any]] = [
        {},
        {"return_tensors": "pt"},
        {"return_offsets_mapping": True, "return_special_tokens_mask": True},
        {"padding": "max_length", "max_length": 20},
    ]
    for options in forms:
        assert_same_numbers(capture_one(bert, bert.tokenizer("the cat is", **options)), expected)


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.int32])
def test_attention_mask_when_of_another_dtype_then_is_read_as_yes_and_no(bert: tw.Subject, kind: torch.dtype) -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]], dtype=kind)
    inputs = {"input_ids": torch.tensor([[*IDS, 0, 0]]), "attention_mask": mask}
    assert_same_numbers(capture_one(bert, inputs), capture_one(bert, IDS))


def test_pair_when_captured_then_has_two_segments_and_their_token_types(bert: tw.Subject) -> None:
    capture = capture_one(bert, ("the cat", "an old dog"))
    tokens = capture.tokens
    assert tokens.pieces == ("[CLS]", "the", "cat", "[SEP]", "an", "old", "dog", "[SEP]")
    assert tokens.segments[4:7] == (1, 1, 1)
    assert [tokens.texts[1][slice(*s)] for s in tokens.spans[4:7] if s and tokens.texts[1]] == [
        "an",
        "old",
        "dog",
    ]
    with torch.no_grad():
        types = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])
        logits = bert.model(input_ids=torch.tensor([tokens.ids]), token_type_ids=types).logits[0]
    torch.testing.assert_close(capture.logits, logits, atol=1e-5, rtol=1e-4)
    listed = capture_all(bert, [("the cat", "an old dog"), "the man"])
    assert_same_numbers(listed[0], capture)
    assert_same_numbers(listed[1], capture_one(bert, "the man"))


def test_numpy_arrays_when_used_as_ids_then_are_read_or_named(bert: tw.Subject) -> None:
    for inputs in (np.array(IDS), np.array([IDS]), [np.int64(i) for i in IDS]):
        try:
            capture = bert.capture(inputs)  # pyright: ignore[reportArgumentType, reportCallIssue]
        except tw.InputError as error:
            assert "ndarray" in str(error) or "int64" in str(error)  # noqa: PT017
        else:
            capture = capture[0] if isinstance(capture, list) else capture
            assert_same_numbers(capture, capture_one(bert, IDS))
