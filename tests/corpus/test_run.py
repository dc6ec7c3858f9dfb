"""A run that is stopped at any moment goes on to what one that never stopped has written."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from safetensors.numpy import load_file
from tokenizers.normalizers import Lowercase
from transformers import PreTrainedTokenizerFast

import thalweg as tw
from tests.corpus.folders import read, sentences, timeless
from tests.families import PAD
from tests.tiny import save_folder, tiny_subject
from thalweg.corpus.job import make_job
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shards import Shard, Text
from thalweg.corpus.work import work
from thalweg.files.atomic import alone

METHODS = ["attention_rollout", "alti"]


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences(22)))
    return path


def test_run_when_done_then_has_a_row_for_each_text_and_says_of_what_it_is(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    found = run_corpus(subject, file, tmp_path / "out", METHODS, shard=5)
    assert (found.texts, found.shards, found.found, found.complete) == (22, 5, 0, True)
    rows = read(tmp_path / "out")
    assert [row["text"] for row in rows] == list(range(22))
    assert [row["line"] for row in rows] == list(range(1, 23))
    header = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert header["schema"] == 1
    assert header["configuration"]["methods"] == METHODS
    for part in sorted((tmp_path / "out").glob("shard-*.parquet")):
        mark = json.loads(pyarrow.parquet.read_schema(part).metadata[b"thalweg"])
        assert {name: mark[name] for name in ("schema", "weights", "configuration_hash")} == {
            name: header[name] for name in ("schema", "weights", "configuration_hash")
        }
    loaded = tw.Corpus.load(tmp_path / "out")
    assert (loaded.counts, loaded.configuration) == (found.counts, found.configuration)
    assert {one.name for one in (tmp_path / "out").iterdir()} == {
        "corpus.json", *(f"shard-{n:06d}.parquet" for n in range(5)),
    }  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
def test_run_when_batches_differ_then_rows_say_the_same(
    subject: tw.Subject, file: Path, tmp_path: Path, batch: int
) -> None:
    run_corpus(subject, file, tmp_path / "one", ["alti"], shard=30, certificate=None)
    run_corpus(subject, file, tmp_path / "other", ["alti"], shard=4, batch=batch, certificate=None)
    for one, other in zip(read(tmp_path / "one"), read(tmp_path / "other"), strict=True):
        assert one["digest"] == other["digest"]
        assert one["methods"][0]["entropy"] == pytest.approx(other["methods"][0]["entropy"], abs=1e-4)


def test_run_when_a_shard_is_missing_then_only_that_is_done_again(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, shard=5, maps=True)
    before, stamps = timeless(out), {one.name: one.stat().st_mtime_ns for one in out.iterdir()}
    (out / "shard-000001.parquet").unlink()
    (out / "maps-000003.safetensors").unlink()
    (out / "shard-000002.parquetabc.draft").write_text("half")
    found = run_corpus(subject, file, out, METHODS, shard=5, maps=True)
    assert (found.texts, found.found) == (22, 12)
    assert timeless(out) == before
    again = {one.name for one in out.iterdir() if stamps.get(one.name) != one.stat().st_mtime_ns}
    assert again == {
        f"{kind}-{n:06d}.{end}" for n in (1, 3) for kind, end in (("shard", "parquet"), ("maps", "safetensors"))
    }
    assert set(load_file(out / "maps-000003.safetensors")) == {f"{n}/{name}" for n in range(15, 20) for name in METHODS}


KILLED = """
import json, os, random, signal, sys, time
import torch
torch.set_num_threads(1)
import thalweg as tw
import thalweg.files.atomic
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shards import Shard, Text
from thalweg.corpus.work import work

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

run(out + "-first")  # everything is imported and the wiring is learnt before anybody is born
start = time.monotonic()
os.waitpid(started(out + "-timed"), 0)
whole = time.monotonic() - start
kills = []
if how == "random":
    chance = random.Random(7)
    for _ in range(12):
        child = started(out)
        time.sleep(chance.uniform(0, 0.4 * whole))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills.append(len([name for name in os.listdir(out) if name.endswith(".parquet")]) if os.path.isdir(out) else -1)
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
found = run(out)
print(json.dumps({"kills": kills, "texts": found.texts}))
"""


@pytest.mark.parametrize("how", ["random", "before", "after"])
def test_run_when_killed_again_and_again_then_ends_with_what_an_uninterrupted_one_has(
    subject: tw.Subject, file: Path, tmp_path: Path, how: str
) -> None:
    save_folder(tmp_path / "model")
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = [sys.executable, "-c", KILLED, str(tmp_path / "model"), str(file), str(out), how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["texts"] == 22
    if how == "random":
        assert len(set(found["kills"])) > 2, "all kills fell into the same moments"
    else:
        assert found["kills"] == [9, 9, 9, 9]
    run_corpus(tw.load(tmp_path / "model"), file, whole, METHODS, shard=2, maps=True)
    assert timeless(out) == timeless(whole)
    assert {one.name for one in out.iterdir()} == {one.name for one in whole.iterdir()}
    for maps in whole.glob("maps-*.safetensors"):
        assert (out / maps.name).read_bytes() == maps.read_bytes()


def test_run_when_the_disk_is_full_then_says_so_and_goes_on_later(subject: tw.Subject, tmp_path: Path) -> None:
    file, out = tmp_path / "texts.txt", tmp_path / "out"
    short, long = sentences(10), [" ".join(sentences(n + 9)) for n in range(5)]
    file.write_text("\n".join([*short[:5], *long, *short[5:]]))
    run_corpus(subject, file, tmp_path / "whole", METHODS, "all", shard=5)
    sizes = [one.stat().st_size for one in sorted((tmp_path / "whole").glob("shard-*"))]
    assert sizes[0] < sizes[1]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((sizes[0] + sizes[1]) // 2, before[1]))
    try:
        with pytest.raises(tw.InputError, match=r"cannot write into .*large.*goes on from there"):
            run_corpus(subject, file, out, METHODS, "all", shard=5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {one.name for one in out.iterdir()} == {"corpus.json", "shard-000000.parquet"}
    assert run_corpus(subject, file, out, METHODS, "all", shard=5).found == 5
    assert timeless(out) == timeless(tmp_path / "whole")


def test_run_when_maps_fill_the_disk_then_says_so_too(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(tw.InputError, match="cannot write into"):
            run_corpus(subject, file, tmp_path / "out", METHODS, "all", maps=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {one.name for one in (tmp_path / "out").iterdir()} == {"corpus.json"}


def test_run_when_another_is_there_then_is_refused(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, limit=3)
    with alone(out), pytest.raises(tw.InputError, match="another run is writing into"):
        run_corpus(subject, file, out, METHODS, limit=3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": ["alti"]}, "another choice of methods"),
        ({"top": 2}, "another choice of top"),
        ({"shard": 2}, "another choice of shard"),
        ({"batch": 2}, "another choice of batch"),
        ({"target": "all"}, "another choice of target"),
        ({"max_tokens": 9}, "another choice of max_tokens"),
        ({"certificate": None}, "another choice of certificate"),
        ({"limit": 2}, "another choice of texts, digest"),
    ],
)
def test_folder_when_asked_for_something_else_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path, change: dict, said: str
) -> None:
    asked = {"methods": METHODS, "limit": 3}
    run_corpus(subject, file, tmp_path / "out", **asked)
    with pytest.raises(tw.InputError, match=said):
        run_corpus(subject, file, tmp_path / "out", **{**asked, **change})


def test_folder_when_of_another_model_or_text_or_anything_else_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, shard=10)
    other = tiny_subject("bert")
    next(other.model.parameters()).data[5] += 1
    with pytest.raises(tw.InputError, match="another choice of weights;"):
        run_corpus(other, file, out, METHODS, shard=10)
    for name, change in {"hidden_act": "relu", "id2label": {0: "no", 1: "yes"}}.items():
        other = tiny_subject("bert")
        setattr(other.model.config, name, change)
        with pytest.raises(tw.InputError, match="another choice of architecture;"):
            run_corpus(other, file, out, METHODS, shard=10)
    other = tiny_subject("bert")
    assert isinstance(other.tokenizer, PreTrainedTokenizerFast)
    other.tokenizer.backend_tokenizer.normalizer = Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(tw.InputError, match="another choice of tokenizer;"):
        run_corpus(other, file, out, METHODS, shard=10)
    texts = file.read_text()
    file.write_text(texts.replace("dog", "cat", 1))
    with pytest.raises(tw.InputError, match="another choice of digest"):
        run_corpus(subject, file, out, METHODS, shard=10)
    file.write_text(texts)
    run_corpus(subject, file, tmp_path / "short", METHODS, shard=10, top=1)
    (out / "shard-000001.parquet").write_bytes((tmp_path / "short" / "shard-000001.parquet").read_bytes())
    with pytest.raises(tw.InputError, match=r"shard-000001.parquet' is a shard of another run"):
        run_corpus(subject, file, out, METHODS, shard=10)
    (out / "shard-000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(tw.InputError, match="remove it to have its texts run again"):
        run_corpus(subject, file, out, METHODS, shard=10)
    (out / "shard-000001.parquet").unlink()
    (out / "shard-000000 (copy).parquet").write_bytes((out / "shard-000000.parquet").read_bytes())
    with pytest.raises(tw.InputError, match="holds shard 0, which has another name; remove it"):
        run_corpus(subject, file, out, METHODS, shard=10)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(tw.InputError, match="files that are not of a corpus"):
        run_corpus(subject, file, tmp_path / "mine", METHODS)
    with pytest.raises(tw.InputError, match="is a file"):
        run_corpus(subject, file, file, METHODS)
    with pytest.raises(tw.InputError, match="holds no corpus"):
        tw.Corpus.load(tmp_path / "mine")


@pytest.mark.parametrize(
    "header", ['{"schema": 1, "configuration": {}}', '{"schema": 1, "configuration": []}', "[]", "{"]
)
def test_folder_when_its_header_is_damaged_then_is_refused(
    subject: tw.Subject, file: Path, tmp_path: Path, header: str
) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, limit=3)
    (out / "corpus.json").write_text(header)
    for act in (tw.Corpus.load, lambda folder: run_corpus(subject, file, folder, METHODS, limit=3)):
        with pytest.raises(tw.InputError, match=r"changed by other hands|no corpus"):
            act(out)


def test_maps_when_damaged_then_their_shard_is_done_again(subject: tw.Subject, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_corpus(subject, file, out, METHODS, shard=10, maps=True)
    maps = out / "maps-000001.safetensors"
    whole = maps.read_bytes()
    for damaged in (b"x", whole[:-5], (out / "maps-000000.safetensors").read_bytes()):
        maps.write_bytes(damaged)
        run_corpus(subject, file, out, METHODS, shard=10, maps=True)
        assert maps.read_bytes() == whole


def test_file_when_it_changes_while_it_is_read_then_the_run_says_so_and_heals(
    subject: tw.Subject, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, out = file.read_text(), tmp_path / "out"
    run_corpus(subject, file, tmp_path / "whole", METHODS, shard=5)
    real, calls = tw.Subject.capture, []

    def capture(*arguments: object) -> object:
        if not calls:  # the survey is over, the shards are not
            file.write_text(texts.replace("dog", "cat") + "\na cat\na dog" * 9)
        calls.append(0)
        return real(*arguments)  # pyright: ignore[reportCallIssue, reportArgumentType]

    monkeypatch.setattr(tw.Subject, "capture", capture)
    with pytest.raises(tw.InputError, match="changed while it was read"):
        run_corpus(subject, file, out, METHODS, shard=5)
    monkeypatch.undo()
    file.write_text(texts)
    run_corpus(subject, file, out, METHODS, shard=5)
    assert timeless(out) == timeless(tmp_path / "whole")


def test_run_when_the_model_is_not_understood_then_is_refused_before_rows_are_written(
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
def test_run_when_the_file_is_full_of_junk_then_good_texts_have_rows_and_bad_ones_errors(
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
    found = run_corpus(subject, file, tmp_path / "out", METHODS, shard=3)
    errors = {row["line"]: row["error"] for row in read(tmp_path / "out")}
    assert {number for number, error in errors.items() if error is None} >= {1, 6, 10}
    assert "not valid UTF-8" in errors[3]
    assert "tokens" in errors[4]
    assert "not valid UTF-8" in errors[7]
    assert (8 in errors and "not valid JSON" in errors[8]) if kind == "jsonl" else errors[8] is None
    assert not {2, 5} & set(errors) or kind == "txt"
    assert 2 not in errors
    assert found.texts == len(errors)
    assert found.counts.failed == sum(error is not None for error in errors.values())
    alone_ = tw.explain(subject, "a new cat", "alti")
    (row,) = [row for row in read(tmp_path / "out") if row["line"] == 6]
    assert row["methods"][1]["sources"][0]["score"] == pytest.approx(alone_.scores.max(), abs=1e-5)


def test_text_of_many_characters_when_the_model_has_no_end_of_positions_then_is_refused_all_the_same(
    tmp_path: Path,
) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(f"{LONG}\nthe old dog")
    subject = tiny_subject("t5")
    subject.model.config.decoder_start_token_id = PAD
    run_corpus(subject, file, tmp_path / "out", ["attention_rollout"])
    first, second = read(tmp_path / "out")
    assert "and 512 are allowed" in first["error"]
    assert second["error"] is None


def test_ticks_when_counted_then_are_as_many_as_texts(subject: tw.Subject) -> None:
    texts = tuple(Text(number, number, text) for number, text in enumerate(["a cat", " ", "the old dog"]))
    ticks: list[int] = []
    work(subject, make_job(subject, ["alti"]), Shard(0, texts), ticks.append)
    assert sum(ticks) == 3
