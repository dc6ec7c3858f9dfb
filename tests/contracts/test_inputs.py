"""What a user may hand in: the good is read as meant, the bad is refused in the library's own words."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import thalweg as tw
from tests.families import BY_NAME, family
from tests.tiny import (
    SENTENCE,
    byte_level,
    save_folder,
    sentence_pieces,
    snapshot,
    tiny_subject,
    whole_words,
    wordpiece,
)
from thalweg.capture.record import Capture

IDS = [1, 5, 28, 13, 3]  # [CLS] the cat is [SEP]
LIMIT = 64  # positions of the tiny models


@pytest.fixture(autouse=True)
def as_users_run_it() -> Iterator[None]:
    """Without the type checks of a test run, which would answer a wrong type before the library."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def bert() -> tw.Subject:
    return tiny_subject()


@pytest.fixture(scope="module")
def gpt2() -> tw.Subject:
    return tiny_subject("gpt2")


@pytest.fixture(scope="module")
def bart() -> tw.Subject:
    return tiny_subject("bart")


@pytest.fixture(scope="module")
def vit() -> tw.Subject:
    return tw.load(BY_NAME["vit"].build())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("checkpoint"))


def refused(subject: tw.Subject, act: Callable[[], object], error: type[Exception], *says: str) -> None:
    """The act raises this error, whose one line says all of this, and the model is as before."""
    before = snapshot(subject.model)
    with pytest.raises(error) as caught:
        act()
    assert snapshot(subject.model) == before
    assert_says(caught.value, *says)


def assert_says(error: BaseException, *says: str) -> None:
    message = str(error)
    assert "\n" not in message
    for part in says:
        assert part in message


def ids(*rows: list[int]) -> Tensor:
    return torch.tensor([*rows])


# --- what is refused -----------------------------------------------------------------------------

BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "empty_text": ("", ("''", "empty")),
    "white_space": (" \n\t ", ("' \\n\\t '", "empty")),
    "dropped_characters": ("\u200d\x00", ("no tokens of its own",)),
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
    "empty_list": ([], ("nothing was given",)),
    "empty_tuple": ((), ("nothing was given",)),
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
    "empty_tensor": (torch.empty(0, dtype=torch.long), ("nothing was given",)),
    "batch_of_empty_rows": (torch.empty(2, 0, dtype=torch.long), ("empty", "given")),
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
def test_input_when_it_cannot_be_used_then_is_refused_in_words(bert: tw.Subject, name: str) -> None:
    given, says = BAD[name]
    refused(bert, lambda: bert.capture(given), tw.InputError, *says)


@pytest.mark.parametrize("error", [tw.InputError, tw.ModelError, tw.ProofError])
def test_errors_when_caught_as_builtins_then_are_caught(error: type[Exception]) -> None:
    assert issubclass(error, tw.ThalwegError)
    assert issubclass(error, ArithmeticError if error is tw.ProofError else ValueError)


def test_positions_when_all_are_used_then_are_enough_and_one_more_is_refused() -> None:
    for name, limit in [("bert", LIMIT), ("roberta", LIMIT - 1), ("gpt2", LIMIT), ("opt", LIMIT)]:
        subject = tiny_subject(name)
        capture = subject.capture([5, 6] * (limit // 2) + [7] * (limit % 2))
        assert isinstance(capture, Capture)
        assert len(capture.tokens) == limit
        refused(subject, lambda s=subject, n=limit: s.capture([5] * (n + 1)), tw.InputError, str(limit))


def test_text_when_there_is_no_tokenizer_then_is_refused_but_ids_work() -> None:
    subject = tw.load(BY_NAME["bert"].build())
    refused(subject, lambda: subject.capture("the cat"), tw.InputError, "tokenizer")
    assert isinstance(subject.capture(IDS), Capture)


def test_unknown_words_when_they_are_all_there_is_then_are_not_called_special(
    bert: tw.Subject,
) -> None:
    before = snapshot(bert.model)
    try:
        capture = bert.capture("zzz qqq")
    except tw.InputError as error:
        assert "unknown" in str(error)  # noqa: PT017 - either way is right, but not "special"
    else:
        assert capture.tokens.pieces == ("[CLS]", "zzz", "qqq", "[SEP]")
    assert snapshot(bert.model) == before


BAD_PIXELS = {
    "nan": (torch.full((1, 3, 16, 16), torch.nan), ("pixel_values", "NaN")),
    "infinite": (torch.full((1, 3, 16, 16), torch.inf), ("pixel_values", "infinite")),
    "no_batch": (torch.rand(3, 16, 16), ("pixel_values", "(3, 16, 16)")),
    "another_size": (torch.rand(1, 3, 20, 20), ("20",)),
    "another_number_of_channels": (torch.rand(1, 1, 16, 16), ("channel",)),
    "empty": (torch.empty(0, 3, 16, 16), ("pixel_values", "empty")),
}


@pytest.mark.parametrize("name", BAD_PIXELS)
def test_pixels_when_they_cannot_be_used_then_are_refused(vit: tw.Subject, name: str) -> None:
    pixels, says = BAD_PIXELS[name]
    refused(vit, lambda: vit.capture({"pixel_values": pixels}), tw.InputError, *says)


def test_ids_when_the_model_sees_images_then_are_refused(vit: tw.Subject) -> None:
    refused(vit, lambda: vit.capture([5, 6]), tw.InputError, "pixel_values")


@pytest.mark.parametrize(
    ("target_text", "says"),
    [
        ("a dog " * 50, ("101 tokens", "64")),
        (5, ("target_text", "int")),
        (["a", "b"], ("2 target texts", "1 inputs")),
        ([5], ("target_text",)),
        ("\udcff", ("\\udcff",)),
    ],
    ids=["too_long", "number", "two", "list_of_number", "surrogate"],
)
def test_target_text_when_it_cannot_be_used_then_is_refused(
    bart: tw.Subject, target_text: Any, says: tuple[str, ...]
) -> None:
    refused(bart, lambda: bart.capture("the cat", target_text), tw.InputError, *says)


@pytest.mark.parametrize(
    ("decoder", "says"),
    [
        ([[5] * 65], ("65 tokens", "64")),
        ([[500]], ("500", "vocabulary of 99")),
        ([[5], [6]], ("decoder_input_ids", "2")),
        ([[]], ("decoder_input_ids", "empty")),
    ],
    ids=["too_long", "out_of_vocabulary", "another_batch", "empty"],
)
def test_decoder_ids_when_they_cannot_be_used_then_are_refused(
    bart: tw.Subject, decoder: list[list[int]], says: tuple[str, ...]
) -> None:
    given = {"input_ids": [[1, 5, 3]], "decoder_input_ids": decoder}
    refused(bart, lambda: bart.capture(given), tw.InputError, *says)


def test_target_text_when_decoder_ids_are_given_too_then_is_refused(bart: tw.Subject) -> None:
    given = {"input_ids": [[1, 5, 3]], "decoder_input_ids": [[3, 5]]}
    refused(bart, lambda: bart.capture(given, "a dog"), tw.InputError, "not both")


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_target_text_when_there_is_no_decoder_to_read_it_then_is_refused(name: str) -> None:
    subject = tiny_subject(name)
    refused(subject, lambda: subject.capture("the cat", "a dog"), tw.InputError, "target_text")


def test_speech_decoder_when_too_many_ids_are_given_then_is_refused() -> None:
    whisper = BY_NAME["whisper"]
    subject = tw.load(whisper.build())
    given = {**whisper.inputs(1, 5), "decoder_input_ids": torch.full((1, 65), 5)}
    refused(subject, lambda: subject.capture(given), tw.InputError, "65 tokens", "64")


# --- the model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=["nan", "infinite"])
@pytest.mark.parametrize(
    ("parameter", "module"),
    [
        ("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm"),
        ("bert.encoder.layer.1.attention.self.query.weight", "bert.encoder.layer.1.attention.self.query"),
        ("bert.encoder.layer.1.attention.output.dense.weight", "bert.encoder.layer.1.attention.output.dense"),
        ("bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.dense"),
    ],
    ids=["embeddings", "query", "projection", "mlp"],
)
def test_weights_when_they_are_not_finite_then_the_first_module_that_feels_it_is_named(
    parameter: str, module: str, value: float
) -> None:
    subject = tiny_subject()
    with torch.no_grad():
        subject.model.get_parameter(parameter).flatten()[0] = value
    refused(subject, lambda: subject.capture(SENTENCE), tw.ModelError, "NaN or infinite", f"'{module}'")


@pytest.mark.parametrize("parameter", ["bert.encoder.layer.2.output.dense.weight", "classifier.bias"])
def test_weights_when_they_spoil_only_the_prediction_then_are_refused(parameter: str) -> None:
    subject = tiny_subject()
    with torch.no_grad():
        subject.model.get_parameter(parameter).flatten()[0] = torch.nan
    refused(subject, lambda: tw.explain(subject, SENTENCE), tw.ModelError, "NaN or infinite")


@pytest.mark.parametrize("part", ["", "bert.encoder.layer.1.attention.self.dropout"])
def test_model_when_it_is_in_training_mode_then_is_refused(part: str) -> None:
    subject = tiny_subject()
    subject.model.get_submodule(part).train()
    refused(subject, lambda: subject.capture(SENTENCE), tw.ModelError, "training mode", "model.eval()")


def test_replay_when_the_model_was_put_into_training_mode_since_then_is_refused() -> None:
    subject = tiny_subject()
    capture = subject.capture(SENTENCE)
    subject.model.train()
    refused(subject, lambda: capture.replay(lambda call: call.run()), tw.ModelError, "training mode")


def test_mamba_when_captured_then_is_refused() -> None:
    subject = tw.load(BY_NAME["mamba"].build(), wordpiece())
    refused(subject, lambda: subject.capture(SENTENCE), tw.ModelError, "Mamba", "attention")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (5, tw.InputError, ("int", "a folder or a hub name")),
        (torch.nn.Linear(2, 2), tw.InputError, ("Linear", "transformers model")),
        ("", tw.ModelError, ("''",)),
        ("./nowhere", tw.ModelError, ("./nowhere", "no folder")),
        (Path("/nowhere/at/all"), tw.ModelError, ("/nowhere/at/all", "no folder")),
        ("someone/unknown-model", tw.ModelError, ("someone/unknown-model", "network")),
        ("unknown-model", tw.ModelError, ("unknown-model", "network")),
    ],
    ids=["number", "module", "empty", "folder", "path", "hub_name", "short_hub_name"],
)
def test_load_when_there_is_no_such_model_then_says_what_was_looked_for(
    given: Any, error: type[Exception], says: tuple[str, ...]
) -> None:
    with pytest.raises(error) as caught:
        tw.load(given)
    assert_says(caught.value, *says)


def edit_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def with_pickle_only(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    without_weights(folder)


def without_a_layer(folder: Path) -> None:
    path = folder / "model.safetensors"
    kept = {name: value for name, value in load_file(path).items() if ".layer.1." not in name}
    save_file(kept, path, metadata={"format": "pt"})


def without_a_layer_or_head(folder: Path) -> None:
    without_a_layer(folder)
    edit_config(folder, architectures=["BertModel"])


BROKEN: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "no_weights": (without_weights, ("safetensors",)),
    "pickled_weights": (with_pickle_only, ("safetensors", "use_safetensors=False")),
    "garbage_weights": (lambda f: (f / "model.safetensors").write_bytes(b"?" * 999), ()),
    "empty_weights": (lambda f: (f / "model.safetensors").write_bytes(b""), ()),
    "cut_weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:20_000]),
        (),
    ),
    "missing_layer": (without_a_layer, ("bert.encoder.layer.1.", "15 more")),
    "missing_layer_of_an_encoder": (without_a_layer_or_head, ("encoder.layer.1.",)),
    "weights_of_another_size": (lambda f: edit_config(f, hidden_size=64), ()),
    "no_config": (lambda f: (f / "config.json").unlink(), ("config.json",)),
    "garbage_config": (lambda f: (f / "config.json").write_text("?"), ("config.json",)),
    "unknown_architecture": (lambda f: edit_config(f, model_type="frob"), ("frob",)),
    "impossible_heads": (lambda f: edit_config(f, num_attention_heads=5), ("heads",)),
    "garbage_tokenizer": (lambda f: (f / "tokenizer.json").write_text("?"), ("token",)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_load_when_the_folder_is_broken_then_says_which_and_why(folder: Path, tmp_path: Path, name: str) -> None:
    damage, says = BROKEN[name]
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    damage(broken)
    with pytest.raises(tw.ModelError) as caught:
        tw.load(broken)
    assert_says(caught.value, str(broken), *says)


@pytest.mark.parametrize("task", ["masked_lm", "causal_lm", "seq2seq", "token_classification"])
def test_load_when_the_checkpoint_has_no_head_for_the_task_then_is_refused(folder: Path, task: Any) -> None:
    with pytest.raises(tw.ModelError) as caught:
        tw.load(folder, task=task)
    assert_says(caught.value, str(folder))


def test_load_when_the_folder_is_whole_then_gives_the_numbers_of_the_model(folder: Path) -> None:
    found, expected = tw.load(folder).capture(SENTENCE), tiny_subject().capture(SENTENCE)
    assert found.tokens == expected.tokens
    torch.testing.assert_close(found.logits, expected.logits)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"task": "divination"}, ("'divination'", "classification")),
        ({"task": 5}, ("5", "classification")),
        ({"dtype": "nonsense"}, ("dtype", "nonsense")),
        ({"device": "nonsense"}, ("device", "nonsense")),
        ({"frobnicate": 1}, ("frobnicate",)),
    ],
    ids=["task", "task_number", "dtype", "device", "option"],
)
def test_load_when_an_option_is_unknown_then_is_refused(
    folder: Path, options: dict[str, Any], says: tuple[str, ...]
) -> None:
    with pytest.raises(tw.ThalwegError) as caught:
        tw.load(folder, **options)
    assert_says(caught.value, *says)


def test_load_when_the_tokenizer_is_a_name_then_is_refused(bert: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="tokenizer"):
        tw.load(bert.model, "bert-base-uncased")  # pyright: ignore[reportArgumentType]


def test_load_when_a_built_model_gets_loading_options_then_is_refused(bert: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="already built"):
        tw.load(bert.model, dtype="float32")


# --- the question --------------------------------------------------------------------------------

BAD_QUESTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown_method": ({"method": "alchemy"}, ("'alchemy'", "attention_rollout")),
    "method_none": ({"method": None}, ("None", "attention_rollout")),
    "method_list": ({"method": ["raw_attention"]}, ("raw_attention", "attention_rollout")),
    "unknown_parameter": ({"temperature": 1}, ("'temperature'", "residual", "layer", "head")),
    "layer_text": ({"layer": "top"}, ("'layer'", "'top'", "a whole number")),
    "layer_float": ({"layer": 1.0}, ("'layer'", "1.0", "a whole number")),
    "layer_bool": ({"layer": True}, ("'layer'", "True", "a whole number")),
    "layer_list": ({"layer": [0]}, ("'layer'", "[0]", "a whole number")),
    "layer_none": ({"layer": None}, ("'layer'", "None", "a whole number")),
    "layer_too_high": ({"layer": 3}, ("layer 3", "0 to 2")),
    "layer_too_low": ({"layer": -4}, ("layer -4", "0 to 2")),
    "head_too_high": ({"head": 4}, ("head 4", "0 to 3")),
    "head_negative": ({"head": -1}, ("head -1", "0 to 3")),
    "head_text": ({"head": "x"}, ("'head'", "'x'", "a whole number or none")),
    "residual_too_large": ({"residual": 1.5}, ("residual", "1.5", "0 to 1")),
    "residual_nan": ({"residual": float("nan")}, ("residual", "nan", "0 to 1")),
    "residual_text": ({"residual": "half"}, ("'residual'", "'half'", "a number")),
    "residual_bool": ({"residual": True}, ("'residual'", "True", "a number")),
    "target_too_high": ({"target": 13}, ("13", "0 to 12")),
    "target_too_low": ({"target": -14}, ("-14", "0 to 12")),
    "target_list_too_high": ({"target": [0, 13]}, ("13", "0 to 12")),
    "target_empty_list": ({"target": []}, ("[]", "0 to 12")),
    "target_unknown_token": ({"target": "zebra"}, ("'zebra'", "not there", "cabinet")),
    "target_ambiguous_token": ({"target": "the"}, ("'the'", "[1, 4, 8]")),
    "target_empty_text": ({"target": ""}, ("''", "cabinet")),
    "target_float": ({"target": 1.5}, ("1.5", "target")),
    "target_list_of_text": ({"target": ["keys"]}, ("keys", "target")),
    "target_list_of_none": ({"target": [None]}, ("None", "target")),
    "target_bytes": ({"target": b"x"}, ("target", "b'x'")),
}


@pytest.mark.parametrize("name", BAD_QUESTIONS)
def test_question_when_it_cannot_be_answered_then_is_refused_in_words(bert: tw.Subject, name: str) -> None:
    asked, says = BAD_QUESTIONS[name]
    refused(bert, lambda: tw.explain(bert, SENTENCE, **asked), tw.InputError, *says)


@pytest.mark.parametrize(
    "target", [np.int64(2), np.array([2]), torch.tensor([2]), (2,)], ids=["int64", "array", "tensor", "tuple"]
)  # fmt: skip
def test_target_when_it_is_a_number_of_another_library_then_is_read_or_refused(bert: tw.Subject, target: Any) -> None:
    expected = tw.explain(bert, SENTENCE, target=2)
    try:
        found = tw.explain(bert, SENTENCE, target=target)
    except tw.InputError:
        return
    assert found.targets.pieces == ("keys",)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_prediction_when_a_bare_encoder_is_asked_then_is_refused() -> None:
    subject = tw.load(BY_NAME["nomic_bert"].build(), wordpiece())
    refused(
        subject,
        lambda: tw.explain(subject, SENTENCE, target="prediction"),
        tw.InputError,
        "no single prediction",
        '"all"',
    )
    assert tw.explain(subject, SENTENCE).scores.shape == (13, 13)


def test_prediction_when_a_masked_model_has_no_mask_then_is_refused_and_with_one_is_read_there() -> None:
    subject = tiny_subject("electra")
    refused(
        subject,
        lambda: tw.explain(subject, SENTENCE, target="prediction"),
        tw.InputError,
        "mask",
        '"all"',
    )
    found = tw.explain(subject, "the [MASK] is old", target="prediction")
    assert found.targets.pieces == ("[MASK]",)
    assert found.sources.pieces == ("[CLS]", "the", "[MASK]", "is", "old", "[SEP]")
    capture = subject.capture("the [MASK] is old")
    assert capture.logits is not None
    assert subject.tokenizer is not None
    assert found.prediction == subject.tokenizer.decode([int(capture.logits[2].argmax())])


@pytest.mark.parametrize("given", [["the cat"], ["the cat", "a dog"]], ids=["one", "two"])
def test_explain_and_compare_when_a_list_is_given_then_ask_for_one_example(bert: tw.Subject, given: list[str]) -> None:
    for ask in (tw.explain, tw.compare):
        refused(bert, lambda ask=ask: ask(bert, given), tw.InputError, "one example")


@pytest.mark.parametrize(
    ("methods", "says"),
    [
        (["raw_attention"], ("two or more", "['raw_attention']")),
        (["raw_attention", "raw_attention"], ("different",)),
        ([], ("two or more", "[]")),
        ("raw_attention", ("'raw_attention'", "list")),
        (["raw_attention", "alchemy"], ("'alchemy'", "attention_rollout")),
        (None, ("None",)),
    ],
    ids=["one", "twice", "none", "text", "unknown", "nothing"],
)
def test_compare_when_methods_cannot_be_compared_then_is_refused(
    bert: tw.Subject, methods: Any, says: tuple[str, ...]
) -> None:
    refused(bert, lambda: tw.compare(bert, SENTENCE, methods), tw.InputError, *says)


# --- what is read as meant -----------------------------------------------------------------------


def one(subject: tw.Subject, given: Any, *more: Any) -> Capture:
    capture = subject.capture(given, *more)
    assert isinstance(capture, Capture)
    return capture


def several(subject: tw.Subject, given: Any) -> list[Capture]:
    captures = subject.capture(given)
    assert isinstance(captures, list)
    return captures


def assert_same_numbers(found: Capture, expected: Capture) -> None:
    assert found.tokens.ids == expected.tokens.ids
    for block, wanted in zip(found.blocks, expected.blocks, strict=True):
        torch.testing.assert_close(block.output, wanted.output, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(block.weights(), wanted.weights(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "given",
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
def test_one_example_when_given_in_any_form_then_has_the_same_numbers(bert: tw.Subject, given: Any) -> None:
    with torch.no_grad():
        logits = bert.model(input_ids=torch.tensor([IDS])).logits[0]
    found = one(bert, given)
    assert found.tokens.pieces[1:4] in (("the", "cat", "is"), ("The", "cat", "is"))
    torch.testing.assert_close(found.logits, logits, atol=1e-5, rtol=1e-4)
    assert_same_numbers(found, one(bert, "the cat is"))


def test_batch_when_given_in_any_form_then_has_the_numbers_of_each_alone(bert: tw.Subject) -> None:
    texts = ["the cat is", "a dog likes the old man"]
    expected = [one(bert, text) for text in texts]
    assert bert.tokenizer is not None
    right = bert.tokenizer(texts, padding=True, return_tensors="pt")
    left = bert.tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    assert left["input_ids"][0, 0] == 0  # really padded to the left
    lists = bert.tokenizer(texts)["input_ids"]
    for given in (texts, right, left, dict(left), lists):
        for found, wanted in zip(several(bert, given), expected, strict=True):
            assert_same_numbers(found, wanted)


def test_left_padding_when_the_model_is_causal_then_changes_nothing(gpt2: tw.Subject) -> None:
    texts = ["the key", "the keys to the door"]
    expected = [one(gpt2, text) for text in texts]
    assert gpt2.tokenizer is not None
    batch = gpt2.tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    for found, wanted in zip(several(gpt2, batch), expected, strict=True):
        assert_same_numbers(found, wanted)


def test_tokenizer_output_when_it_is_of_one_text_then_gives_one_capture(bert: tw.Subject) -> None:
    assert bert.tokenizer is not None
    expected = one(bert, "the cat is")
    forms: list[dict[str, Any]] = [
        {},
        {"return_tensors": "pt"},
        {"return_offsets_mapping": True, "return_special_tokens_mask": True},
        {"padding": "max_length", "max_length": 20},
    ]
    for options in forms:
        assert_same_numbers(one(bert, bert.tokenizer("the cat is", **options)), expected)


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.int32])
def test_attention_mask_when_of_another_dtype_then_is_read_as_yes_and_no(bert: tw.Subject, kind: torch.dtype) -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]], dtype=kind)
    given = {"input_ids": torch.tensor([[*IDS, 0, 0]]), "attention_mask": mask}
    assert_same_numbers(one(bert, given), one(bert, IDS))


def test_pair_when_given_then_has_two_segments_and_their_token_types(bert: tw.Subject) -> None:
    capture = one(bert, ("the cat", "an old dog"))
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
    listed = several(bert, [("the cat", "an old dog"), "the man"])
    assert_same_numbers(listed[0], capture)
    assert_same_numbers(listed[1], one(bert, "the man"))


def test_encoder_decoder_when_a_target_text_is_given_then_reads_it_behind_its_start(
    bart: tw.Subject,
) -> None:
    capture = one(bart, "the cat", "a dog")
    assert capture.tokens.pieces == ("[CLS]", "the", "cat", "[SEP]", "[SEP]", "a", "dog")
    with torch.no_grad():
        logits = bart.model(
            input_ids=torch.tensor([[1, 5, 28, 3]]), decoder_input_ids=torch.tensor([[3, 6, 29]])
        ).logits[0]
    torch.testing.assert_close(capture.logits, logits, atol=1e-5, rtol=1e-4)
    assert one(bart, "the cat").tokens.pieces[4:] == ("[SEP]",)


TEXTS = {
    "plain": SENTENCE,
    "emoji": "the cat 😀😂 is old",
    "family_emoji": "the 👨\u200d👩\u200d👧 story",
    "flags": "🇳🇱 film",
    "right_to_left": "مرحبا the שלום",
    "cjk": "日本 film 日",
    "combining": "cafe\u0301 the e\u0301\u0301",
    "capitals_that_grow": "İstanbul the ẞ ﬁlm",
    "newlines_and_tabs": "the\ncat\r\n\tis  old\u00a0dog",
    "long_word": "the " + "un" * 200 + " film",
    "many_x": "x" * 50,
    "markup": "<b>the</b> [red]cat[/red] </script> &amp; {{ x }}",
    "control": "the \x1b[2J cat \x07\x00 is",
    "mask_inside": "the [MASK] is old",
    "repeated": "the the the the",
    "punctuation": "...!!!???",
    "apostrophes": "don't 'the' cat-dog",
}


@cache
def long_subject(kind: str) -> tw.Subject:
    makers = (wordpiece, byte_level, sentence_pieces, whole_words)
    build = family("bert", "classification", max_position_embeddings=512).build
    return tw.load(build(), {make.__name__: make for make in makers}[kind]())


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", ["wordpiece", "byte_level", "sentence_pieces", "whole_words"])
def test_text_when_it_is_unusual_then_tokens_and_words_keep_their_places(kind: str, name: str) -> None:
    text, subject = TEXTS[name], long_subject(kind)
    result = tw.explain(subject, text, "raw_attention", target="all")
    tokens = result.sources
    assert all(piece for piece in tokens.pieces)
    for piece, span, special in zip(tokens.pieces, tokens.spans, tokens.special, strict=True):
        if span is not None and text[slice(*span)].strip():
            assert not special
            assert piece == text[slice(*span)].strip()
    words = result.words()
    assert all(word for word in words.sources.pieces)
    np.testing.assert_allclose(words.scores.sum(1), 1, atol=1e-5)
    labels = [
        word
        for word, special, span in zip(words.sources.pieces, words.sources.special, words.sources.spans, strict=True)
        if not special and span is not None and text[slice(*span)].strip()
    ]
    dropped = r"[\s\x00-\x1f\u200d\u0301\ufffd\xa0]"  # by a normaliser of BERT's
    joined, expected = (re.sub(dropped, "", t) for t in ("".join(labels), text))
    assert joined == expected


def test_text_with_repeated_tokens_when_one_is_asked_for_by_place_then_is_that_one(
    bert: tw.Subject,
) -> None:
    both = tw.explain(bert, "the the the", "raw_attention", target=[1, 3])
    assert both.targets.spans == ((0, 3), (8, 11))
    for row, position in enumerate((1, 3)):
        alone = tw.explain(bert, "the the the", "raw_attention", target=position)
        np.testing.assert_allclose(both.scores[row], alone.scores[0])
    assert not np.allclose(both.scores[0], both.scores[1])


def test_target_when_it_is_a_token_then_ignores_case_and_counts_from_the_end(
    bert: tw.Subject,
) -> None:
    by_name = tw.explain(bert, SENTENCE, target="Cabinet")
    by_place = tw.explain(bert, SENTENCE, target=5)
    from_end = tw.explain(bert, SENTENCE, target=-8)
    assert by_name.targets.pieces == by_place.targets.pieces == from_end.targets.pieces
    np.testing.assert_array_equal(by_name.scores, by_place.scores)
    np.testing.assert_array_equal(by_name.scores, from_end.scores)


def test_arrays_of_numpy_when_given_as_ids_then_are_read_or_named(bert: tw.Subject) -> None:
    for given in (np.array(IDS), np.array([IDS]), [np.int64(i) for i in IDS]):
        try:
            found = bert.capture(given)  # pyright: ignore[reportArgumentType, reportCallIssue]
        except tw.InputError as error:
            assert "ndarray" in str(error) or "int64" in str(error)  # noqa: PT017
        else:
            found = found[0] if isinstance(found, list) else found
            assert_same_numbers(found, one(bert, IDS))
