"""Fitting probes: sums and MLPs that resume from a checkpoint equal those of an uninterrupted run."""

from pathlib import Path

import pytest
import torch

import thalweg as tw
from tests.probing.corpus import same_mlps, sentences
from thalweg.files.run_folder import DIGESTS, HEADER, LOCK, RunFolder
from thalweg.probing import learning, mlp
from thalweg.probing.learning import MLPS
from thalweg.probing.probe import probe
from thalweg.probing.result import RESULT
from thalweg.probing.states import read_states

TEXTS = sentences(60)


@pytest.mark.parametrize("checkpoints", [1, 2, 4])
def test_mlps_when_interrupted_after_a_checkpoint_then_resume_to_the_same_probes(
    bert: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: int
) -> None:
    monkeypatch.setattr(mlp, "MAX_EPOCHS", 4)
    uninterrupted = probe(bert, TEXTS, kinds=("linear", "mlp"))
    write, written = RunFolder.write_tensors, []

    def interrupted(self: RunFolder, name: str, *rest: object) -> None:
        write(self, name, *rest)  # type: ignore[arg-type]
        written.append(name)
        if written.count(MLPS) == checkpoints:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_tensors", interrupted)
        with pytest.raises(KeyboardInterrupt):
            probe(bert, TEXTS, kinds=("linear", "mlp"), folder=tmp_path)
    assert same_mlps(probe(bert, TEXTS, kinds=("linear", "mlp"), folder=tmp_path), uninterrupted)
    assert {path.name for path in tmp_path.iterdir()} == {RESULT, HEADER, LOCK, DIGESTS}


def test_sums_when_interrupted_then_resume_to_the_same_maps(
    bert: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "CHECKPOINT_BATCHES", 1)
    uninterrupted = probe(bert, TEXTS, kinds=("linear",))
    calls = []

    def interrupted(subject: tw.Subject, texts: list[str]) -> object:
        calls.append(texts)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return read_states(subject, texts)

    with monkeypatch.context() as patch:
        patch.setattr(learning, "read_states", interrupted)
        with pytest.raises(KeyboardInterrupt):
            probe(bert, TEXTS, kinds=("linear",), folder=tmp_path)
        resumed = probe(bert, TEXTS, kinds=("linear",), folder=tmp_path)
    assert len(calls) == 2 + 2  # two batches of training and one of validation, the first of them from the checkpoint
    assert resumed.rates == uninterrupted.rates
    for key, linear in uninterrupted.maps.items():
        assert torch.equal(linear(torch.eye(32)), resumed.maps[key](torch.eye(32)))
