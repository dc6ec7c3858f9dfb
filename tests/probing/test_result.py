"""Probes as a result: curves, application to one text, saving and loading."""

import os
from pathlib import Path

import numpy as np
import pytest

import thalweg as tw
from tests.probing.corpus import sentences
from tests.tiny import SENTENCE, byte_level, tiny_subject
from thalweg.probing.probe import probe
from thalweg.probing.result import RESULT, Probes


def test_probes_when_saved_and_loaded_then_recover_the_same(bert: tw.Subject, probes: Probes, tmp_path: Path) -> None:
    probes.save(tmp_path)
    probes.save(tmp_path)  # the same run may be written again
    loaded = Probes.load(tmp_path)
    assert loaded.to_dict() == probes.to_dict()
    for kind in ("identity", "linear", "mlp"):
        before, after = (p.apply(bert, SENTENCE, kind, "cosine", "whole") for p in (probes, loaded))
        np.testing.assert_array_equal(before.hits, after.hits)
        np.testing.assert_array_equal(before.nearest, after.nearest)
        assert before.taken_for == after.taken_for
        assert before.hits.shape == (4, len(before.tokens))
    assert probes.apply(bert, SENTENCE, "identity", "cosine", "whole").hits[0].min() == 1.0


def test_probes_when_applied_to_another_model_or_tokenizer_then_are_refused(bert: tw.Subject, probes: Probes) -> None:
    with pytest.raises(tw.InputError, match="different weights"):
        probes.apply(tiny_subject("roberta"), SENTENCE)
    with pytest.raises(tw.InputError, match="different tokenizer"):
        probes.apply(tw.load(bert.model, byte_level()), SENTENCE)


def test_probe_when_the_run_has_none_of_the_kind_then_names_it(bert: tw.Subject) -> None:
    only_identity = probe(bert, sentences(20), kinds=("identity",), metrics=("l2",))
    with pytest.raises(tw.InputError, match="no probe mlp, l2, whole"):
        only_identity.curve("mlp", "l2")
    with pytest.raises(tw.InputError, match="no probe identity, cosine, whole with match 'lenient'"):
        only_identity.apply(bert, SENTENCE, metric="cosine", match="lenient")


def test_folder_when_it_holds_no_finished_run_then_load_says_why(probes: Probes, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match=r"run\.json"):
        Probes.load(tmp_path / "nowhere")
    probes.save(tmp_path / "run")
    (tmp_path / "run" / RESULT).write_bytes(b"junk")
    with pytest.raises(tw.InputError, match=r"probes\.safetensors is damaged"):
        Probes.load(tmp_path / "run")
    os.unlink(tmp_path / "run" / RESULT)
    with pytest.raises(tw.InputError, match="unfinished"):
        Probes.load(tmp_path / "run")
