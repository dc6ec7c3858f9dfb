"""Runs over a file: interrupted at any moment, they resume and end with the rows of an uninterrupted run."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from tokenizers.normalizers import Lowercase
from transformers import PreTrainedTokenizerFast

import thalweg as tw
from tests.corpus.folders import read_rows, sentences, untimed_rows
from tests.families import PAD
from tests.tiny import save_folder, tiny_subject
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shard_store import KIND
from thalweg.errors import DamagedFileWarning
from thalweg.files.run_folder import open_run, read_header

METHODS = ["attention_rollout", "alti"]


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences(22)))
    return path


def test_run_when_done_then_has_a_row_for_each_text_and_a_header(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    corpus = run_corpus(subject, file, tmp_path / "out", METHODS, shard=5)
    assert (corpus.texts, corpus.shards, corpus.resumed, corpus.complete) == (22, 5, 0, True)
    rows = read_rows(tmp_path / "out")
    assert [row["text"] for row in rows] == list(range(22))
    assert [row["line"] for row in rows] == list(range(1, 23))
    header = read_header(tmp_path / "out", KIND)
    assert header.identity["methods"] == METHODS
    assert header.identity.items() >= subject.identity().items()
    assert header.provenance == subject.provenance
    loaded = tw.Corpus.load(tmp_path / "out")
    assert (loaded.counts, loaded.identity) == (corpus.counts, corpus.identity)
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {
        "run.json", "run.lock", "digests.txt", *(f"shard-{n:06d}.parquet" for n in range(5)),
    }  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
def test_run_when_batches_differ_then_rows_agree(subject: tw.Subject, file: Path, tmp_path: Path, batch: int) -> None:
    run_corpus(subject, file, tmp_path / "first", ["alti"], shard=30, certificate=None)
    run_corpus(subject, file, tmp_path / "other", ["alti"], shard=4, batch=batch, certificate=None)
    for row, other in zip(read_rows(tmp_path / "first"), read_rows(tmp_path / "other"), strict=True):
        assert row["digest"] == other["digest"]
        assert row["methods"][0]["entropy"] == pytest.approx(other["methods"][0]["entropy"], abs=1e-4)


def test_run_when_a_shard_is_missing_then_recomputes_only_that(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, shard=5, maps=True)
    before, stamps = untimed_rows(out), {entry.name: entry.stat().st_mtime_ns for entry in out.iterdir()}
    (out / "shard-000001.parquet").unlink()
    (out / "maps-000003.safetensors").unlink()
    (out / "shard-000002.parquetabc.draft").write_text("half")
    corpus = run_corpus(subject, file, out, METHODS, shard=5, maps=True)
    assert (corpus.texts, corpus.resumed) == (22, 12)
    assert untimed_rows(out) == before
    rewritten = {entry.name for entry in out.iterdir() if stamps.get(entry.name) != entry.stat().st_mtime_ns}
    assert rewritten - {"run.lock", "digests.txt"} == {
        f"{kind}-{n:06d}.{end}" for n in (1, 3) for kind, end in (("shard", "parquet"), ("maps", "safetensors"))
    }
    assert set(load_file(out / "maps-000003.safetensors")) == {f"{n}/{name}" for n in range(15, 20) for name in METHODS}


KILLED = """
import json, os, random, signal, sys, time
import torch
torch.set_num_threads(1)
import thalweg as tw
from thalweg.corpus.run import run_corpus

model, file, out, how = sys.argv[1:]
subject = tw.load(model)

def run(folder):
    return run_corpus(subject, file, folder, ["attention_rollout", "alti"], shard=2, maps=True)

def started(folder, before=lambda: None):
    child = os.fork()
    if child == 0:
        try:
            before()
            run(folder)
        finally:
            os._exit(0)
    return child

def written():
    return len([name for name in os.listdir(out) if name.endswith(".parquet")]) if os.path.isdir(out) else 0

run(out + "-first")  # imports everything and learns the wiring before the first fork
start = time.monotonic()
os.waitpid(started(out + "-timed"), 0)
whole = time.monotonic() - start
kills = []
if how == "random":
    chance = random.Random(7)
    for _ in range(12):
        enough = min(written() + chance.choice((0, 0, 0, 1, 1, 2)), 10)
        child = started(out)
        while written() < enough:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, whole / 11))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills.append(written())
else:
    for number in range(1, 5):
        def before():
            real, calls = os.replace, []
            def replace(*arguments):
                calls.append(0)
                if len(calls) == number and how == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                real(*arguments)
                if len(calls) == number and how == "after":
                    os.kill(os.getpid(), signal.SIGKILL)
            os.replace = replace
        _, status = os.waitpid(started(out, before), 0)
        kills.append(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)
print(json.dumps({"kills": kills, "texts": run(out).texts}))
"""


@pytest.mark.parametrize("how", ["random", "before", "after"])
def test_run_when_killed_repeatedly_then_ends_with_the_rows_of_an_uninterrupted_run(
    subject: tw.Subject, file: Path, tmp_path: Path, how: str
) -> None:
    save_folder(tmp_path / "model")
    out, whole = tmp_path / "out", tmp_path / "whole"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "model"), str(file), str(out), how]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    outcome = json.loads(process.stdout)
    assert outcome["texts"] == 22
    if how == "random":
        assert len(set(outcome["kills"])) > 2, "all kills happened at the same stage"
    else:
        assert outcome["kills"] == [9, 9, 9, 9]
    run_corpus(tw.load(tmp_path / "model"), file, whole, METHODS, shard=2, maps=True)
    assert untimed_rows(out) == untimed_rows(whole)
    assert {entry.name for entry in out.iterdir()} == {entry.name for entry in whole.iterdir()}
    for maps in whole.glob("maps-*.safetensors"):
        assert (out / maps.name).read_bytes() == maps.read_bytes()


def test_run_when_the_disk_is_full_then_fails_and_can_be_resumed(subject: tw.Subject, tmp_path: Path) -> None:
    file, out = tmp_path / "texts.txt", tmp_path / "out"
    short, long = sentences(10), [" ".join(sentences(n + 9)) for n in range(5)]
    file.write_text("\n".join([*short[:5], *long, *short[5:]]))
    run_corpus(subject, file, tmp_path / "whole", METHODS, "all", shard=5)
    sizes = [shard.stat().st_size for shard in sorted((tmp_path / "whole").glob("shard-*"))]
    assert sizes[0] < sizes[1]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((sizes[0] + sizes[1]) // 2, before[1]))
    try:
        with pytest.raises(tw.InputError, match=r"cannot write to .*large.*resumes"):
            run_corpus(subject, file, out, METHODS, "all", shard=5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {entry.name for entry in out.iterdir()} == {"run.json", "run.lock", "digests.txt", "shard-000000.parquet"}
    assert run_corpus(subject, file, out, METHODS, "all", shard=5).resumed == 5
    assert untimed_rows(out) == untimed_rows(tmp_path / "whole")


def test_run_when_maps_fill_the_disk_then_fails_without_a_shard(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(tw.InputError, match="cannot write to"):
            run_corpus(subject, file, tmp_path / "out", METHODS, "all", maps=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {"run.json", "run.lock", "digests.txt"}


def test_run_when_another_process_writes_to_the_folder_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    corpus = run_corpus(subject, file, out, METHODS, limit=3)
    with (
        open_run(out, KIND, corpus.identity, corpus.provenance),
        pytest.raises(tw.InputError, match="another process is writing"),
    ):
        run_corpus(subject, file, out, METHODS, limit=3)


def test_folder_when_it_is_being_written_then_can_be_loaded(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corpus = run_corpus(subject, file, out, METHODS, shard=5)
    (out / "shard-000001.parquet").unlink()
    with open_run(out, KIND, corpus.identity, corpus.provenance) as folder, folder.draft("shard-000001.parquet"):
        loaded = tw.Corpus.load(out)
        assert (loaded.texts, loaded.complete) == (17, False)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"methods": ["alti"]}, "methods"),
        ({"top": 2}, r"top \(5 there, 2 here\)"),
        ({"shard": 2}, r"shard \(256 there, 2 here\)"),
        ({"batch": 2}, r"batch \(32 there, 2 here\)"),
        ({"target": "all"}, r"target \(None there, 'all' here\)"),
        ({"max_tokens": 9}, r"max_tokens \(\d+ there, 9 here\)"),
        ({"certificate": None}, r"certificate \('values' there, None here\)"),
        ({"maps": True}, r"maps \(False there, True here\)"),
        ({"limit": 2}, r"texts \(3 there, 2 here\), texts_digest"),
    ],
)
def test_folder_when_an_option_differs_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path, change: dict, difference: str
) -> None:
    options = {"methods": METHODS, "limit": 3}
    run_corpus(subject, file, tmp_path / "out", **options)
    with pytest.raises(tw.InputError, match=f"different {difference}"):
        run_corpus(subject, file, tmp_path / "out", **{**options, **change})


def test_folder_when_the_model_or_a_text_differs_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def check(other: tw.Subject, difference: str) -> None:
        with pytest.raises(tw.InputError, match=rf"different {difference} \(\S+ there, \S+ here\);"):
            run_corpus(other, file, out, METHODS, shard=10)

    run_corpus(subject, file, out, METHODS, shard=10)
    other = tiny_subject("bert")
    next(other.model.parameters()).data[5] += 1
    check(other, "weights")
    for name, change in {"hidden_act": "relu", "id2label": {0: "no", 1: "yes"}}.items():
        other = tiny_subject("bert")
        setattr(other.model.config, name, change)
        check(other, "config")
    other = tiny_subject("bert")
    assert isinstance(other.tokenizer, PreTrainedTokenizerFast)
    other.tokenizer.backend_tokenizer.normalizer = Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
    check(other, "tokenizer")
    file.write_text(file.read_text().replace("dog", "cat", 1))
    check(subject, "texts_digest")


def test_folder_when_it_holds_something_else_then_is_refused(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(tw.InputError, match=r"not part of a corpus run \(thesis\.txt\)"):
        run_corpus(subject, file, tmp_path / "mine", METHODS)
    with pytest.raises(tw.InputError, match="is a file"):
        run_corpus(subject, file, file, METHODS)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"kind": "corpus", "schema": 4, "identity": {}, "provenance": {}}', r"run\.json .*modified"),
        ('{"kind": "corpus", "schema": 4, "identity": [], "provenance": {}}', r"run\.json is incomplete"),
        ('{"kind": "corpus", "schema": 1}', "schema 1, expected 4"),
        ('{"kind": "bench", "schema": 2}', "bench run, expected a corpus run"),
        ("[]", "expected a corpus run"),
        ("{", r"cannot read .*run\.json"),
    ],
)
def test_folder_when_its_header_is_damaged_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path, header: str, message: str
) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, limit=3)
    (out / "run.json").write_text(header)
    for read in (tw.Corpus.load, lambda folder: run_corpus(subject, file, folder, METHODS, limit=3)):
        with pytest.raises(tw.InputError, match=message):
            read(out)
    assert (out / "run.json").read_text() == header


def test_maps_when_damaged_then_their_shard_is_recomputed(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, shard=10, maps=True)
    maps = out / "maps-000001.safetensors"
    intact = maps.read_bytes()
    for damaged in (b"x", intact[:-5], (out / "maps-000000.safetensors").read_bytes()):
        maps.write_bytes(damaged)
        with pytest.warns(DamagedFileWarning, match=r"maps-000001\.safetensors is damaged"):
            run_corpus(subject, file, out, METHODS, shard=10, maps=True)
        assert maps.read_bytes() == intact


def test_file_when_it_changes_during_the_run_then_the_next_run_repairs_the_rows(
    subject: tw.Subject, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, out = file.read_text(), tmp_path / "out"
    run_corpus(subject, file, tmp_path / "whole", METHODS, shard=5)
    real, calls = tw.Subject.capture, []

    def capture(*arguments: object) -> object:
        if not calls:  # after the survey, before the shards
            file.write_text(texts.replace("dog", "cat") + "\na cat\na dog" * 9)
        calls.append(0)
        return real(*arguments)  # pyright: ignore[reportCallIssue, reportArgumentType]

    monkeypatch.setattr(tw.Subject, "capture", capture)
    with pytest.raises(tw.InputError, match=r"texts\.txt was modified during the run"):
        run_corpus(subject, file, out, METHODS, shard=5)
    monkeypatch.undo()
    file.write_text(texts)
    run_corpus(subject, file, out, METHODS, shard=5)
    assert untimed_rows(out) == untimed_rows(tmp_path / "whole")


def test_run_when_the_model_is_not_ready_then_is_refused_before_rows_are_written(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    subject.model.train()
    try:
        with pytest.raises(tw.ModelError, match="training mode"):
            run_corpus(subject, file, tmp_path / "out", METHODS)
    finally:
        subject.model.eval()
    assert not (tmp_path / "out").exists()


LONG = "the old dog runs. " * 5556  # 100,008 characters


@pytest.mark.parametrize("kind", ["txt", "jsonl"])
def test_run_when_the_file_is_full_of_junk_then_good_texts_have_results_and_bad_ones_errors(
    subject: tw.Subject, tmp_path: Path, kind: str
) -> None:
    def line(text: str) -> bytes:
        return (text if kind == "txt" else json.dumps({"text": text})).encode()

    junk = bytes(range(128, 256))
    lines = [
        line("the old dog"),
        b"",
        junk,
        line(LONG),
        b"   ",
        line("a new cat"),
        b"\0\0",
        b'{"text": "',
        line("\ufeff"),
    ]
    file = tmp_path / f"texts.{kind}"
    file.write_bytes(b"\n".join([*lines, line("the film is bad"), b"", b""]))
    corpus = run_corpus(subject, file, tmp_path / "out", METHODS, shard=3)
    errors = {row["line"]: row["error"] for row in read_rows(tmp_path / "out")}
    assert {number for number, error in errors.items() if error is None} >= {1, 6, 10}
    assert "UTF-8" in errors[3] and "line 3" in errors[3]
    assert "tokens" in errors[4]
    assert "UTF-8" in errors[7] and "line 7" in errors[7]
    assert (8 in errors and "JSON" in errors[8]) if kind == "jsonl" else errors[8] is None
    assert not {2, 5} & set(errors) or kind == "txt"
    assert 2 not in errors
    assert corpus.texts == len(errors)
    assert corpus.counts.failed == sum(error is not None for error in errors.values())
    attribution = tw.explain(subject, "a new cat", "alti")
    (row,) = [row for row in read_rows(tmp_path / "out") if row["line"] == 6]
    assert row["methods"][1]["sources"][0]["score"] == pytest.approx(attribution.scores.max(), abs=1e-5)


def test_text_when_too_long_for_a_model_without_positions_then_becomes_an_error(
    tmp_path: Path,
) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(f"{LONG}\nthe old dog")
    subject = tiny_subject("t5")
    subject.model.config.decoder_start_token_id = PAD
    run_corpus(subject, file, tmp_path / "out", ["attention_rollout"])
    first, second = read_rows(tmp_path / "out")
    assert "512" in first["error"]
    assert second["error"] is None


def test_run_when_the_file_has_no_texts_or_a_number_is_wrong_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty.csv").write_text("text,label\n,1\n,2\n")
    with pytest.raises(tw.InputError, match=r"empty\.csv has no texts in column 'text'"):
        run_corpus(subject, tmp_path / "empty.csv", tmp_path / "out", METHODS)
    with pytest.raises(tw.InputError, match="shard must be at least 1, got 0"):
        run_corpus(subject, file, tmp_path / "out", METHODS, shard=0)
    with pytest.raises(tw.InputError, match="limit must be at least 1, got 0"):
        run_corpus(subject, file, tmp_path / "out", METHODS, limit=0)
    assert not (tmp_path / "out").exists()
