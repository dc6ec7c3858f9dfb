"""Digests react to everything that numbers depend on, and to nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, ElectraConfig, PreTrainedConfig, PreTrainedTokenizerFast

from tests.families import BY_NAME
from tests.tiny import byte_level, sentence_pieces, tiny_subject, whole_words, wordpiece
from thalweg.digests import DIGEST_LENGTH, config_digest, text_digest, tokenizer_digest, weights_digest


class TwoTensors(nn.Module):
    """A parameter and a non-persistent buffer, of any names, shapes and values."""

    def __init__(self, weight: str = "weight", shape: tuple[int, ...] = (2, 3), buffer: float = 1.0) -> None:
        super().__init__()
        self.register_parameter(weight, nn.Parameter(torch.arange(6.0).reshape(shape)))
        self.register_buffer("scale", torch.tensor(buffer), persistent=False)


def test_weights_when_equal_then_have_one_digest() -> None:
    assert weights_digest(TwoTensors()) == weights_digest(TwoTensors())
    assert len(weights_digest(TwoTensors())) == DIGEST_LENGTH
    assert weights_digest(tiny_subject().model) == weights_digest(tiny_subject().model)


@pytest.mark.parametrize(
    "other",
    [
        TwoTensors(weight="kernel"),
        TwoTensors(shape=(3, 2)),
        TwoTensors(shape=(6,)),
        TwoTensors(buffer=2.0),
        TwoTensors().bfloat16(),
    ],
    ids=["name", "shape", "axes", "buffer", "dtype"],
)
def test_weights_when_a_name_shape_dtype_or_buffer_differs_then_the_digest_differs(other: nn.Module) -> None:
    assert weights_digest(other) != weights_digest(TwoTensors())


def test_weights_when_a_single_number_changes_then_the_digest_changes() -> None:
    model = TwoTensors()
    with torch.no_grad():
        next(model.parameters())[1, 2] += 1
    assert weights_digest(model) != weights_digest(TwoTensors())


def test_weights_when_gradients_or_mode_change_then_the_digest_does_not() -> None:
    model = TwoTensors().train().requires_grad_(False)
    assert weights_digest(model) == weights_digest(TwoTensors().eval())


@pytest.mark.parametrize("changes", [{"layer_norm_eps": 0.5}, {"hidden_act": "relu"}, {"num_labels": 3}], ids=str)
def test_config_when_an_entry_changes_then_the_digest_changes(changes: dict[str, Any]) -> None:
    assert config_digest(BertConfig(**changes)) != config_digest(BertConfig())


class Original(PreTrainedConfig):
    model_type = "original"


class Renamed(PreTrainedConfig):
    model_type = "original"


class Retyped(PreTrainedConfig):
    model_type = "retyped"


def test_config_when_its_class_or_model_type_differs_then_the_digest_differs() -> None:
    """All entries of these configs are defaults, so that their diffs are empty."""
    assert len({config_digest(config()) for config in (Original, Renamed, Retyped, BertConfig, ElectraConfig)}) == 5


def test_config_when_its_origin_or_the_version_of_transformers_differs_then_the_digest_does_not() -> None:
    config = BertConfig(transformers_version="3.0.0", architectures=["BertModel"], dtype="bfloat16")
    config.name_or_path = "/somewhere/else"
    assert config_digest(config) == config_digest(BertConfig())


def test_config_when_a_nested_config_changes_then_the_digest_changes() -> None:
    first, second = (BY_NAME["bert"].build().config for _ in range(2))
    assert config_digest(first) == config_digest(second)
    first.id2label, second.id2label = {0: "no", 1: "yes"}, {1: "yes", 0: "no"}
    assert config_digest(first) == config_digest(second)
    second.id2label = {0: "yes", 1: "no"}
    assert config_digest(first) != config_digest(second)


def test_tokenizers_when_different_then_have_different_digests() -> None:
    assert len({tokenizer_digest(make()) for make in (wordpiece, byte_level, sentence_pieces, whole_words)}) == 4


def set_padding(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer(["the cat", "the"], padding="max_length", max_length=20, truncation=True)


def set_origin(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.name_or_path = "/somewhere/else"


@pytest.mark.parametrize("act", [set_padding, set_origin])
def test_tokenizer_when_it_has_padded_or_moved_then_the_digest_is_the_same(
    act: Callable[[PreTrainedTokenizerFast], None],
) -> None:
    tokenizer = wordpiece()
    act(tokenizer)
    assert tokenizer_digest(tokenizer) == tokenizer_digest(wordpiece())


def test_tokenizer_when_a_token_is_added_then_the_digest_changes() -> None:
    tokenizer = wordpiece()
    tokenizer.add_tokens(["zebra"])
    assert tokenizer_digest(tokenizer) != tokenizer_digest(wordpiece())


def test_texts_when_order_or_borders_differ_then_have_different_digests() -> None:
    texts = [["a", "b"], ["b", "a"], ["ab"], ["a\0b"], ["a", "b", ""], []]
    assert len({text_digest(each) for each in texts}) == len(texts)
    assert text_digest(("a", "b")) == text_digest(["a", "b"])
