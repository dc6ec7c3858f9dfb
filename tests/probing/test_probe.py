"""Probes from texts to rates: facts that hold for any model, and the run folder."""

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers

import thalweg as tw
from tests.probing.corpus import same_mlps, sentences
from tests.tiny import SENTENCE, tiny_subject
from thalweg.errors import DamagedFileWarning
from thalweg.files.run_folder import DIGESTS, HEADER, LOCK
from thalweg.probing import mlp
from thalweg.probing.probe import probe
from thalweg.probing.result import RESULT, Probes

TEXTS = sentences(60)


def test_identity_when_applied_at_layer_0_then_is_always_right(probes: Probes) -> None:
    for metric in ("cosine", "l2"):
        for part in ("whole", "angle"):
            assert probes.curve("identity", metric, part)[0].rate == 1.0


def test_cosine_when_only_the_angle_is_shown_then_is_the_same_for_identity(probes: Probes) -> None:
    assert probes.curve("identity", "cosine") == probes.curve("identity", "cosine", "angle")
    for rate in probes.curve("identity", "cosine", "norm").values():
        assert rate.rate == pytest.approx(probes.chance["strict"])


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_decoder_when_probed_then_has_rates_for_every_layer(family: str) -> None:
    texts = [text[:30] for text in sentences(30)]
    probes = probe(tiny_subject(family), texts, kinds=("identity", "linear"), metrics=("cosine",))
    lenient = probes.curve("identity", "cosine", match="lenient")
    assert list(lenient) == [0, 1, 2, 3]
    assert lenient[0].rate == pytest.approx(1.0)
    strict = probes.curve("identity", "cosine")[0].rate
    assert strict < 1 if family == "llama" else strict == 1  # without positions, equal letters have equal embeddings


def test_vocabulary_when_searched_then_identity_at_layer_0_is_right_and_both_matches_agree(bert: tw.Subject) -> None:
    probes = probe(bert, TEXTS[:30], kinds=("identity", "linear"), candidates="vocabulary")
    assert probes.curve("identity", "cosine")[0].rate == 1.0
    assert probes.curve("linear", "l2") == probes.curve("linear", "l2", match="lenient")
    assert probes.chance["strict"] == pytest.approx(1 / 99)
    recovery = probes.apply(bert, SENTENCE, "identity")
    assert recovery.taken_for[0] == tuple(recovery.tokens.pieces)
    assert recovery.hits[0].min() == 1.0


def test_previous_layer_when_recovered_then_every_layer_is_compared_with_the_one_below(bert: tw.Subject) -> None:
    probes = probe(bert, TEXTS[:30], kinds=("identity", "linear"), metrics=("l2",), to="previous")
    assert [(key.layer, key.to) for key, match in probes.rates if key.kind == "linear" and match == "strict"] == [
        (1, 0), (2, 1), (3, 2),
    ]  # fmt: skip
    later = probe(bert, TEXTS[:30], kinds=("identity",), to=2)
    assert list(later.curve("identity", "l2")) == [2, 3]
    assert later.curve("identity", "l2")[2].rate == 1.0


def test_texts_when_too_few_or_unusable_then_are_named(bert: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="at least 10"):
        probe(bert, TEXTS[:1] * 50)
    with pytest.raises(tw.InputError, match="text 3 of 60"):
        probe(bert, [*TEXTS[:2], "  ", *TEXTS[3:]])
    with pytest.raises(tw.InputError, match="list of strings"):
        probe(bert, SENTENCE)


def test_layer_when_the_model_does_not_have_it_then_the_folder_stays_free(bert: tw.Subject, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="0 to 3"):
        probe(bert, TEXTS, to=9, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_run_when_finished_then_the_same_command_only_reads_it(
    bert: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = probe(bert, TEXTS, kinds=("identity",), folder=tmp_path)
    monkeypatch.delattr("thalweg.probing.probe.measure")
    assert probe(bert, TEXTS, kinds=("identity",), folder=tmp_path).to_dict() == first.to_dict()


@pytest.fixture(scope="module")
def finished(bert: tw.Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    probe(bert, TEXTS, kinds=("identity",), folder=folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 5}, r"different seed \(0 there, 5 here\)"),
        ({"kinds": ("identity", "linear")}, "different kinds"),
        ({"to": "previous"}, "different to"),
        ({"texts": TEXTS[1:]}, "different texts"),
    ],
)
def test_run_when_an_option_or_the_texts_differ_then_is_refused(
    bert: tw.Subject, finished: Path, changes: dict, named: str
) -> None:
    arguments = {"texts": TEXTS, "kinds": ("identity",), **changes}
    with pytest.raises(tw.InputError, match=named):
        probe(bert, **arguments, folder=finished)


@pytest.mark.parametrize("changed", ["weights", "config", "tokenizer"])
def test_run_when_the_model_differs_in_one_part_then_is_refused_by_its_name(finished: Path, changed: str) -> None:
    other = tiny_subject("bert")
    backend: Any = getattr(other.tokenizer, "backend_tokenizer")  # noqa: B009 - not every tokenizer has one
    if changed == "weights":
        next(other.model.parameters()).data.add_(1e-3)
    elif changed == "config":
        other.model.config.layer_norm_eps = 0.5  # pyright: ignore[reportAttributeAccessIssue]
    else:
        backend.normalizer = normalizers.BertNormalizer(lowercase=False)  # the same ids for these texts
    with pytest.raises(tw.InputError, match=rf"different {changed} \([^,]*, [^,]*\); "):
        probe(other, TEXTS, kinds=("identity",), folder=finished)


def test_folder_when_it_holds_other_files_then_is_refused(bert: tw.Subject, tmp_path: Path) -> None:
    (tmp_path / RESULT).write_bytes(b"junk")
    with pytest.raises(tw.InputError, match=r"not part of a probe run \(probes\.safetensors\)"):
        probe(bert, TEXTS, kinds=("identity",), folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [RESULT]


def test_run_when_the_disk_is_full_then_the_error_explains_it_and_no_draft_is_left(
    bert: tw.Subject, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(tw.InputError, match=r"cannot write to .*large.*resumes"):
            probe(bert, TEXTS, kinds=("linear",), folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {file.name for file in tmp_path.iterdir()} == {HEADER, LOCK, DIGESTS}


def test_result_when_damaged_then_is_refused_by_load_and_fitted_again(bert: tw.Subject, tmp_path: Path) -> None:
    first = probe(bert, TEXTS, kinds=("linear",), folder=tmp_path)
    content = bytearray((tmp_path / RESULT).read_bytes())
    content[-9] ^= 1
    (tmp_path / RESULT).write_bytes(content)
    with pytest.raises(tw.InputError, match=r"probes\.safetensors is damaged"):
        Probes.load(tmp_path)
    with pytest.warns(DamagedFileWarning, match=r"probes\.safetensors is damaged"):
        assert probe(bert, TEXTS, kinds=("linear",), folder=tmp_path).to_dict() == first.to_dict()
    assert Probes.load(tmp_path).to_dict() == first.to_dict()


WRITER = """
import sys, time
from tests.probing.corpus import sentences
from tests.tiny import tiny_subject
from thalweg.files.run_folder import RunFolder
from thalweg.probing import mlp
from thalweg.probing.learning import MLPS
from thalweg.probing.probe import probe
mlp.MAX_EPOCHS = 4
write, written = RunFolder.write_tensors, []

def pausing(self, name, *rest):
    write(self, name, *rest)
    written.append(name)
    if written.count(MLPS) == 2:
        print("paused", flush=True)
        time.sleep(600)

RunFolder.write_tensors = pausing
import torch
torch.set_num_threads(1)
probe(tiny_subject("bert"), sentences(60), kinds=("linear", "mlp"), folder=sys.argv[1])
"""


def test_run_when_another_process_writes_then_is_refused_and_resumes_to_the_same_probes_after_its_kill(
    bert: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "MAX_EPOCHS", 4)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "paused\n"
            with pytest.raises(tw.InputError, match="another process is writing"):
                probe(bert, TEXTS, kinds=("linear", "mlp"), folder=tmp_path)
            with pytest.raises(tw.InputError, match="unfinished"):
                Probes.load(tmp_path)
        finally:
            writer.send_signal(signal.SIGKILL)
    assert (tmp_path / HEADER).exists()
    resumed = probe(bert, TEXTS, kinds=("linear", "mlp"), folder=tmp_path)
    assert same_mlps(resumed, probe(bert, TEXTS, kinds=("linear", "mlp")))
    assert same_mlps(resumed, Probes.load(tmp_path))
