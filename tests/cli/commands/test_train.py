"""`thalweg train`: a table in, a model folder out, and an error of one line if the input is unusable."""

import json
from pathlib import Path

import pytest

import thalweg as tw
from tests.command import Run
from tests.encoders.training.corpus import cued
from tests.tiny import wordpiece
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.result import Training

SIZES = ("--width", "16", "--heads", "2", "--key-size", "4", "--epochs", "3", "--rate", "0.01")


def table(file: Path, examples: LabelledTexts) -> Path:
    rows = zip(examples.texts, examples.labels, strict=True)
    if file.suffix == ".jsonl":
        file.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in rows))
    else:
        mark = "," if file.suffix == ".csv" else "\t"
        file.write_text("\n".join([f"text{mark}label", *(f"{text}{mark}{label}" for text, label in rows)]))
    return file


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(table(tmp_path / "data.csv", cued(120)))


def test_command_when_called_with_a_table_then_trains_shows_and_saves_a_classifier(
    run: Run, data: str, tmp_path: Path
) -> None:
    test, out = table(tmp_path / "test.jsonl", cued(40, seed=1)), tmp_path / "out"
    words = ("train", "--file", data, "--test", str(test), "--out", str(out), *SIZES)
    done = run(*words)
    assert (done.code, done.err) == (0, "")
    for shown in ("test accuracy", "identifiable up to", "parameters", "best", "labels bad, good"):
        assert shown in done.out
    assert run(*words).out == done.out  # a finished run is only read
    answer = json.loads(run(*words, "--json", "-").out)
    assert answer == Training.load(out).to_dict()
    assert run("explain", "the story was lovely", "--model", str(out)).code == 0
    assert run("trust", "the story was lovely", "--model", str(out)).code == 0
    other = run(*words, "--seed", "1")
    assert other.code == 2
    assert "seed (0 there, 1 here)" in other.message


def test_command_when_columns_files_and_tokenizer_are_named_then_uses_them(run: Run, tmp_path: Path) -> None:
    def renamed(file: Path, examples: LabelledTexts) -> str:
        content = table(file, examples).read_text()
        file.write_text(content.replace("text\tlabel", "review\tmood", 1))
        return str(file)

    wordpiece().save_pretrained(tmp_path / "tokenizer")
    files = (
        "--file",
        renamed(tmp_path / "data.tsv", cued(60)),
        "--validation",
        renamed(tmp_path / "v.tsv", cued(20, 1)),
    )
    columns = ("--text-column", "review", "--label-column", "mood", "--tokenizer", str(tmp_path / "tokenizer"))
    done = run("train", *files, *columns, "--out", str(tmp_path / "out"), *SIZES, "--combine", "con")
    assert (done.code, done.err) == (0, "")
    result = Training.load(tmp_path / "out")
    assert result.counts["training examples"] == 60
    assert result.counts["validation examples"] == 20
    tokenizer = tw.load(tmp_path / "out").tokenizer
    assert tokenizer is not None
    assert tokenizer.get_vocab() == wordpiece().get_vocab()


def test_command_when_a_classifier_is_distilled_then_shows_it_before_and_after(run: Run, tmp_path: Path) -> None:
    examples = cued(40)
    moods = {"good": "positive", "bad": "negative"}
    data = table(tmp_path / "data.csv", LabelledTexts(examples.texts, [moods[label] for label in examples.labels]))
    bundled = Path(tw.__file__).parent / "models" / "default"
    words = (
        "--init-from",
        str(bundled),
        "--distil",
        "--layers",
        "1",
        "--epochs",
        "1",
        "--rate",
        "0.01",
        "--out",
        str(tmp_path / "out"),
    )
    done = run("train", "--file", str(data), *words)
    assert (done.code, done.err) == (0, "")
    for shown in ("before", "after", "inherited weights", "given each head's own output"):
        assert shown in " ".join(done.out.split())
    result = Training.load(tmp_path / "out")
    assert result.teacher is not None
    assert result.figures.certified_length > result.teacher.certified_length
    refused = run("train", "--file", str(table(tmp_path / "other.csv", examples)), *words)
    assert refused.code == 2
    assert "'bad', 'good'" in refused.message and "'negative', 'positive'" in refused.message


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--text-column", "review"), ("column 'review'", "text, label")),
        (("--label-column", "class"), ("column 'class'",)),
        (("--file", "nowhere.csv"), ("cannot read", "nowhere.csv")),
        (("--file", "one.csv"), ("two labels",)),
        (("--file", "gaps.csv"), ("gaps.csv", "1 of 3", "'text'", "3")),
        (("--file", "unlabelled.csv"), ("unlabelled.csv", "1 of 3", "'label'", "4")),
        (("--file", "ragged.csv"), ("ragged.csv", "line 3", "3 cells")),
        (("--test", "unseen.csv"), ("test", "'odd'", "'bad', 'good'")),
        (("--validation", "unseen.csv"), ("validation", "'odd'")),
        (("--width", "15", "--combine", "con"), ("15", "2 heads")),
        (("--value-size", "17"), ("value_size", "17", "width 16")),
        (("--key-size", "0"), ("key_size", "got 0")),
        (("--combine", "mix"), ("combine", "'mix'")),
        (("--validation-share", "1.5"), ("validation_share", "1.5")),
        (("--max-length", "2"), ("max_length", "at least 8", "got 2")),
        (("--epochs", "0"), ("epochs", "got 0")),
        (("--rate", "-1"), ("rate", "-1.0")),
        (("--distil",), ("--distil", "--init-from")),
        (("--tokenizer", "nowhere"), ("tokenizer", "'nowhere'")),
        (("--init-from", "./nowhere"), ("./nowhere",)),
        (("--out", "one.csv"), ("one.csv is a file",)),
        (("--out", "."), ("not part of a training run",)),
    ],
)
def test_command_when_an_option_or_file_is_wrong_then_is_refused_before_any_work(
    run: Run, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "one.csv": "text,label\na,x\nb,x\n",
        "gaps.csv": "text,label\na,x\n,y\nc,x\n",
        "unlabelled.csv": "text,label\na,x\nb,y\nc,\n",
        "ragged.csv": "text,label\na,x\nb,y,z\n",
        "unseen.csv": "text,label\na,good\nb,odd\n",
    }.items():
        Path(name).write_text(content)
    before = sorted(tmp_path.iterdir())
    monkeypatch.delattr("thalweg.encoders.training.train.learn_tokenizer")
    done = run("train", "--file", data, "--out", "out", *SIZES, *words)
    assert done.code == 2
    for fact in facts:
        assert fact in done.message
    assert "Traceback" not in done.message
    assert sorted(tmp_path.iterdir()) == before
