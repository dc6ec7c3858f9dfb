"""Loading: checkpoints that are whole, broken or missing, and options."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import thalweg as tw
from tests.refusals import assert_states
from tests.tiny import SENTENCE, save_folder, tiny_subject

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def bert() -> tw.Subject:
    return tiny_subject()


@pytest.mark.parametrize(
    ("model", "error", "facts"),
    [
        (5, tw.InputError, ("int", "a folder or a Hub id")),
        (torch.nn.Linear(2, 2), tw.InputError, ("Linear", "transformers model")),
        ("", tw.ModelError, ("''",)),
        ("./nowhere", tw.ModelError, ("./nowhere", "no folder")),
        (Path("/nowhere/at/all"), tw.ModelError, ("/nowhere/at/all", "no folder")),
        ("someone/unknown-model", tw.ModelError, ("someone/unknown-model", "network")),
        ("unknown-model", tw.ModelError, ("unknown-model", "network")),
    ],
    ids=["number", "module", "empty", "folder", "path", "hub_id", "short_hub_id"],
)
def test_load_when_there_is_no_such_model_then_the_error_names_it(
    model: Any, error: type[Exception], facts: tuple[str, ...]
) -> None:
    with pytest.raises(error) as caught:
        tw.load(model)
    assert_states(caught.value, *facts)


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
def test_load_when_the_folder_is_broken_then_the_error_names_it(folder: Path, tmp_path: Path, name: str) -> None:
    damage, facts = BROKEN[name]
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    damage(broken)
    with pytest.raises(tw.ModelError) as caught:
        tw.load(broken)
    assert_states(caught.value, str(broken), *facts)


@pytest.mark.parametrize("task", ["masked_lm", "causal_lm", "seq2seq", "token_classification"])
def test_load_when_the_checkpoint_has_no_head_for_the_task_then_is_refused(folder: Path, task: Any) -> None:
    with pytest.raises(tw.ModelError) as caught:
        tw.load(folder, task=task)
    assert_states(caught.value, str(folder))


def test_load_when_the_folder_is_whole_then_gives_the_numbers_of_the_model(folder: Path) -> None:
    capture, expected = tw.load(folder).capture(SENTENCE), tiny_subject().capture(SENTENCE)
    assert capture.tokens == expected.tokens
    torch.testing.assert_close(capture.logits, expected.logits)


@pytest.mark.parametrize(
    ("options", "facts"),
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
    folder: Path, options: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with pytest.raises(tw.ThalwegError) as caught:
        tw.load(folder, **options)
    assert_states(caught.value, *facts)


def test_load_when_the_tokenizer_is_a_name_then_is_refused(bert: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="tokenizer"):
        tw.load(bert.model, "bert-base-uncased")  # pyright: ignore[reportArgumentType]


def test_load_when_a_built_model_gets_loading_options_then_is_refused(bert: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="already built"):
        tw.load(bert.model, dtype="float32")


def test_load_when_a_built_model_has_another_task_then_is_refused(bert: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match=r"'classification'.*got 'causal_lm'"):
        tw.load(bert.model, task="causal_lm")


def test_load_when_the_folder_has_no_tokenizer_then_the_subject_has_none(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare, ignore=shutil.ignore_patterns("*token*", "*vocab*"))
    subject = tw.load(bare)
    assert subject.tokenizer is None
    assert (subject.task, subject.name) == ("classification", str(bare))


@pytest.mark.parametrize("device", ["cuda:99", "mps", "nonsense", "meta", "privateuseone", "hpu", "", "cpu:x"])
def test_load_when_the_device_does_not_exist_then_the_error_lists_those_that_do(device: str) -> None:
    with pytest.raises(tw.InputError) as caught:
        tw.load(device=device)
    assert_states(caught.value, repr(device), "not available", "cpu")


def test_load_when_the_device_is_the_cpu_then_the_model_is_there(folder: Path) -> None:
    assert tw.load(folder, device="cpu").model.device == tw.load(folder, device=torch.device("cpu")).model.device
