"""Every kind of run resumes its own work only, and a run that wrote nothing leaves its folder free."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertTokenizer

import thalweg as tw
from tests.encoders.training.corpus import TINY, cued, tiny_bert
from thalweg.corpus.run import run_corpus
from thalweg.encoders.training.tokenizer import learn_tokenizer
from thalweg.encoders.training.train import train
from thalweg.faithfulness.bench import bench
from thalweg.probing.probe import probe

EXAMPLES = cued(60)
TOKENIZER = learn_tokenizer(EXAMPLES.texts, 200)
Runner = Callable[[tw.Subject, Path], Any]


def subject() -> tw.Subject:
    return tw.load(tiny_bert().eval(), TOKENIZER)


def corpus(subject: tw.Subject, folder: Path) -> tw.Corpus:
    file = folder.parent / "texts.txt"
    file.write_text("\n".join(EXAMPLES.texts[:3]))
    return run_corpus(subject, file, folder, ["attention_rollout"], certificate=None)


RUNNERS: dict[str, Runner] = {
    "corpus": corpus,
    "bench": lambda subject, folder: bench(subject, EXAMPLES.texts[:2], ["random"], ["aopc"], folder=folder),
    "probe": lambda subject, folder: probe(subject, EXAMPLES.texts, kinds=["identity"], folder=folder),
    "train": lambda subject, folder: train(EXAMPLES, folder, replace(TINY, epochs=1), teacher=subject),
}


def other_tokenizer(subject: tw.Subject) -> tw.Subject:
    return tw.load(subject.model, BertTokenizer(vocab=TOKENIZER.get_vocab(), do_lower_case=False))


def other_config(subject: tw.Subject) -> tw.Subject:
    subject.model.config.layer_norm_eps = 0.5  # pyright: ignore[reportAttributeAccessIssue]
    return subject


def other_buffers(subject: tw.Subject) -> tw.Subject:
    buffer = dict(subject.model.named_buffers())["bert.embeddings.position_ids"]
    buffer.copy_(buffer.flip(-1))
    return subject


def other_dtype(subject: tw.Subject) -> tw.Subject:
    return tw.load(subject.model.to(torch.float64), TOKENIZER)  # pyright: ignore[reportArgumentType]


CHANGES: dict[str, Callable[[tw.Subject], tw.Subject]] = {
    "tokenizer": other_tokenizer,
    "config": other_config,
    "weights": other_buffers,
    "dtype": other_dtype,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module", params=RUNNERS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, Path]:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    RUNNERS[request.param](subject(), folder)
    return RUNNERS[request.param], folder


@pytest.mark.parametrize("changed", CHANGES)
def test_run_when_the_model_differs_in_any_part_then_is_refused_untouched(
    finished: tuple[Runner, Path], changed: str
) -> None:
    runner, folder = finished
    before = contents(folder)
    with pytest.raises(tw.InputError, match=rf"holds a run with different .*{changed} \("):
        runner(CHANGES[changed](subject()), folder)
    assert contents(folder) == before


def test_run_when_the_version_differs_then_is_refused_and_reported_by_the_version_that_ran(
    finished: tuple[Runner, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, folder = finished
    for module in ("files.run_folder", "models.subject", "encoders.training.train"):
        monkeypatch.setattr(f"thalweg.{module}.__version__", "99.0")
    with pytest.raises(tw.InputError, match=r"different thalweg \(.* there, '99\.0' here\)"):
        runner(subject(), folder)
    kinds = {"corpus": tw.Corpus, "bench": tw.Bench, "probe": tw.Probes, "train": tw.Training}
    loaded: Any = kinds[folder.parent.name.rstrip("0123456789")].load(folder)
    assert loaded.provenance["thalweg"] == tw.__version__


FIRST_STEPS = {
    "corpus": "thalweg.corpus.engines.process_shard",
    "bench": "thalweg.faithfulness.evaluation.Evaluation.rows",
    "probe": "thalweg.probing.probe.measure",
    "train": "thalweg.encoders.training.train.run_teacher",
}


@pytest.mark.parametrize("kind", RUNNERS)
def test_run_when_it_fails_before_its_first_row_then_another_can_use_the_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(FIRST_STEPS[kind], fail)
        with pytest.raises(RuntimeError, match="broken"):
            RUNNERS[kind](subject(), tmp_path / "run")
    assert RUNNERS[kind](other_config(subject()), tmp_path / "run").provenance["thalweg"] == tw.__version__
