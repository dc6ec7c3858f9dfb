"""`thalweg train`: a table in, a model folder out."""

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


def test_command_when_run_on_a_table_then_trains_shows_and_saves_a_classifier(
    run: Run, data: str, tmp_path: Path
) -> None:
    test, out = table(tmp_path / "test.jsonl", cued(40, seed=1)), tmp_path / "out"
    words = ("train", "--data", data, "--test", str(test), "--out", str(out), *SIZES)
    done = run(*words)
    assert (done.code, done.err) == (0, "")
    for fact in ("accuracy on test examples", "parameters", "best", "labels bad, good"):
        assert fact in done.out
    assert run(*words).out == done.out  # a finished run is only read
    answer = json.loads(run(*words, "--json", "-").out)
    assert answer == Training.load(out).to_dict()
    assert run("explain", "the story was lovely", "--model", str(out)).code == 0
    assert run("trust", "the story was lovely", "--model", str(out)).code == 0
    other = run(*words, "--seed", "1")
    assert other.code == 2
    assert "seed" in other.message


def test_command_when_columns_files_and_tokenizer_are_set_then_uses_them(run: Run, tmp_path: Path) -> None:
    def renamed(file: Path, examples: LabelledTexts) -> str:
        content = table(file, examples).read_text()
        file.write_text(content.replace("text\tlabel", "review\tmood", 1))
        return str(file)

    wordpiece().save_pretrained(tmp_path / "tokenizer")
    files = (
        "--data",
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
    shipped = Path(tw.__file__).parent / "models" / "default"
    words = (
        "--init-from",
        str(shipped),
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
    done = run("train", "--data", str(data), *words)
    assert (done.code, done.err) == (0, "")
    for fact in ("before", "after", "weights"):
        assert fact in done.out
    result = Training.load(tmp_path / "out")
    assert result.teacher is not None
    assert result.figures.certified_length > result.teacher.certified_length
    refused = run("train", "--data", str(table(tmp_path / "other.csv", examples)), *words)
    assert refused.code == 2
    assert "positive" in refused.message


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--text-column", "review"), "no column 'review'; the columns are 'text', 'label'"),
        (("--label-column", "class"), "no column 'class'"),
        (("--data", "nowhere.csv"), "cannot read nowhere.csv"),
        (("--data", "one.csv"), "label"),
        (("--data", "gaps.csv"), "1 of 3 rows of gaps.csv have an empty 'text' (lines 3)"),
        (("--data", "unlabelled.csv"), "1 of 3 rows of unlabelled.csv have an empty 'label' (lines 4)"),
        (("--data", "ragged.csv"), "line 3 of ragged.csv has 3 cells"),
        (
            ("--test", "unseen.csv"),
            "'odd'",
        ),
        (("--validation", "unseen.csv"), "'odd'"),
        (("--width", "15", "--combine", "con"), "15"),
        (("--value-size", "17"), "17"),
        (("--key-size", "0"), "key_size"),
        (("--combine", "mix"), "'mix'"),
        (("--validation-share", "1.5"), "validation_share"),
        (("--max-length", "2"), "max_length"),
        (("--epochs", "0"), "epochs"),
        (("--rate", "-1"), "-1.0"),
        (("--distil",), "--init-from"),
        (("--tokenizer", "nowhere"), "tokenizer from 'nowhere'"),
        (("--init-from", "./nowhere"), "'./nowhere'"),
        (("--out", "one.csv"), "one.csv"),
        (("--out", "."), "."),
    ],
)
def test_command_when_something_is_wrong_then_exits_with_two_before_any_work(
    run: Run, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], fact: str
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
    done = run("train", "--data", data, "--out", "out", *SIZES, *words)
    assert done.code == 2
    assert fact in done.message
    assert "Traceback" not in done.message
    assert sorted(tmp_path.iterdir()) == before
