"""The data of a page, written and read back."""

import json
import re
from dataclasses import replace

import numpy as np

from tests.payloads import array_of, decode, rows_of
from tests.tiny import wordpiece
from thalweg.drawing.packed import pack
from thalweg.drawing.payload import ALIGNMENT, Arrays, describe_receipt, describe_tokens, encode_payload
from thalweg.models.tokenize import tokenize
from thalweg.receipt import Check, Receipt
from thalweg.tokens import Tokens, anonymous


def tokens_of(text: str) -> Tokens:
    return tokenize(wordpiece(), (text,))[0]


def test_payload_when_encoded_then_description_and_arrays_are_read_back() -> None:
    arrays = Arrays()
    first = arrays.add(np.array([1, 2, 3], np.uint8))
    second = arrays.add(np.array([0.5, -2.0], np.float32))
    encoded = encode_payload({"label": "</script>\u202e", "first": first}, arrays)
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", encoded)
    description, buffer = decode(encoded)
    assert description == {"label": "</script>\u202e", "first": first}
    assert array_of(first, buffer).tolist() == [1, 2, 3]
    assert array_of(second, buffer).tolist() == [0.5, -2.0]


def test_arrays_when_equal_then_are_stored_once_and_all_are_aligned() -> None:
    arrays = Arrays()
    entries = [arrays.add(np.arange(count, dtype=np.uint8)) for count in (3, 5, 3)]
    assert entries[0] == entries[2]
    assert [entry["offset"] for entry in entries] == [0, ALIGNMENT, 0]
    assert arrays.size == 2 * ALIGNMENT == sum(map(len, arrays.parts))


def test_packed_rows_when_stored_then_are_read_back_with_and_without_columns() -> None:
    rows = np.random.default_rng(0).random((3, 7))
    for packed in (pack(rows), pack(rows, np.uint16, keep=2)):
        arrays = Arrays()
        entry = arrays.packed(packed)
        assert entry is not None
        np.testing.assert_array_equal(rows_of(entry, b"".join(arrays.parts)), packed.unpacked())
    assert Arrays().packed(None) is None


def test_tokens_when_described_then_words_labels_and_spacing_follow_the_text() -> None:
    described = describe_tokens(tokens_of("the unhappy man."))
    assert described["labels"] == ["[CLS]", "the", "un", "happy", "man", ".", "[SEP]"]
    assert described["glued"] == [False, False, False, True, False, True, False]
    assert described["special"] == [True, *[False] * 5, True]
    assert described["wordLabels"][described["words"][2]] == "unhappy"
    assert described["words"][2] == described["words"][3]
    assert described["wordsKnown"]


def test_tokens_when_the_model_reads_another_text_then_both_are_described() -> None:
    described = describe_tokens(tokens_of("CC Man"))
    assert described["labels"][1:3] == ["[UNK]", "man"]
    assert described["surfaces"] == [None, "CC", "Man", None]
    assert described["unknown"] == [False, True, False, False]
    assert described["warnings"][0].startswith("1 of 4 tokens is unknown")


def test_tokens_when_they_hold_control_characters_then_are_spelled_out() -> None:
    described = describe_tokens(replace(anonymous(2), pieces=("\x1b[2J", "\u202e")))
    assert described["labels"] == ["\\x1b[2J", "\\u202e"]
    assert not described["wordsKnown"]


def test_receipt_when_described_then_is_valid_json_even_if_a_check_is_nan() -> None:
    receipt = Receipt({"sum_of_parts": Check((float("nan"),), 1e-4)}, {"gap": float("inf")}, ("biases",))
    described = json.loads(json.dumps(describe_receipt(receipt, 1e-7), allow_nan=False))
    assert described["checks"] == [{"name": "sum of parts", "worst": None, "allowed": 1e-4}]
    assert described["figures"] == {"gap": None, "rows sum to one within": 1e-7}
    assert described["assumed"] == ["biases"]
    assert describe_receipt(receipt, 0.5)["figures"] == {"gap": None}
