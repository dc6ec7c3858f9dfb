"""Words by class against a slow twin, and bootstrap intervals whose answer is known."""

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from tests.corpus.folders import hand_made, write_folder
from thalweg.corpus.rows import Row
from thalweg.corpus.summarise import summarise
from thalweg.corpus.summary import Summary
from thalweg.corpus.words import BLOCKS, EXAMPLES, MIN_TEXTS, bootstrap

METHOD = "alti"


def row(number: int, name: str | None, shares: dict[str, float], probability: float | None = 0.9) -> Row:
    words = [{"word": word.strip("2"), "start": 0} for word in shares]
    method = {"method": METHOD, "error": None, "word_shares": list(shares.values())}
    return hand_made(number, content="", prediction=name, probability=probability, words=words, methods=[method])


def random_rows() -> list[Row]:
    """`Dull` is in negative texts; `the` is in all, twice in every fifth; `rare` in too few; one text has no class."""
    draw, rows = np.random.default_rng(0), []
    for number in range(60):
        name = "negative" if number % 3 else "positive"
        shares = {"the": draw.uniform(0.1, 0.2)}
        if name == "negative" and number % 2:
            shares["Dull" if number % 4 == 1 else "dull"] = draw.uniform(0.3, 0.6)
        if name == "positive":
            shares["witty"] = draw.uniform(0.2, 0.5)
        if number % 5 == 0:
            shares["the2"] = 0.05
        if number < MIN_TEXTS - 1:
            shares["rare"] = 0.9
        rows.append(row(number, name, shares))
    return [*rows, row(60, None, {"dull": 0.9}), hand_made(61, error="bad")]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return random_rows()


@pytest.fixture(scope="module")
def summary(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Summary:
    folder = tmp_path_factory.mktemp("corpus")
    write_folder(folder, rows)
    return summarise(folder)


def test_words_when_ranked_then_are_those_of_the_slow_twin(summary: Summary, rows: list[Row]) -> None:
    known = [entry for entry in rows if entry["prediction"] is not None]
    assert [(entry.name, [word.word for word in entry.words]) for entry in summary.words] == [
        ("negative", ["dull"]),
        ("positive", ["witty"]),
    ]
    for entry in summary.words:
        frequency = fmean(text["prediction"] == entry.name for text in known)
        for word in entry.words:
            shares = [(text, share_of(text, word.word)) for text in known if share_of(text, word.word)]
            own = [share for text, share in shares if text["prediction"] == entry.name]
            assert (word.texts, word.class_texts) == (len(shares), len(own))
            assert word.mean_share == pytest.approx(fmean(own), rel=1e-6)
            pull = fmean(share * ((text["prediction"] == entry.name) - frequency) for text, share in shares)
            assert word.pull == pytest.approx(pull, rel=1e-6)
            assert 0 < word.low < word.pull < word.high
            largest = sorted(shares, key=lambda pair: -pair[1])[:EXAMPLES]
            assert word.examples == tuple(text["text"] for text, _ in largest)


def share_of(text: Row, word: str) -> float:
    shares = zip(text["words"], text["methods"][0]["word_shares"], strict=True)
    return sum(share for entry, share in shares if entry["word"].lower() == word)


def test_classes_when_counted_then_are_those_of_the_rows(summary: Summary) -> None:
    assert [(entry.name, entry.texts, entry.share) for entry in summary.classes] == [
        ("negative", 40, 40 / 60),
        ("positive", 20, 20 / 60),
    ]
    assert [entry.probability for entry in summary.classes] == pytest.approx([0.9, 0.9])
    assert summary.classes[1].examples == (0, 3)


def test_words_when_a_method_is_signed_then_words_against_the_other_class_count_too(tmp_path: Path) -> None:
    rows = [row(n, "ab"[n % 2], {"not": 0.4 if n % 2 else -0.4}) for n in range(2 * MIN_TEXTS)]
    write_folder(tmp_path, rows)
    words = {entry.name: entry.words for entry in summarise(tmp_path).words}
    assert words["a"] == ()
    (word,) = words["b"]
    assert (word.pull, word.low, word.high) == pytest.approx((0.2, 0.2, 0.2))


def test_words_when_all_texts_have_one_class_or_no_words_then_are_none(tmp_path: Path) -> None:
    write_folder(tmp_path / "same", [row(n, "a", {"dull": 0.5}) for n in range(20)])
    assert summarise(tmp_path / "same").words == ()
    write_folder(tmp_path / "model", random_rows(), task="causal_lm")
    assert (summarise(tmp_path / "model").words, summarise(tmp_path / "model").classes) == ((), ())
    write_folder(tmp_path / "hash", [hand_made(n, prediction="ab"[n % 2]) for n in range(20)])
    assert all(entry.words == () for entry in summarise(tmp_path / "hash").words)


def test_bootstrap_when_values_are_normal_then_is_near_the_interval_of_theory() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, BLOCKS)
    low, high = bootstrap(values, np.ones(BLOCKS))
    half = 1.96 * values.std() / BLOCKS**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)
    assert bootstrap(values, np.ones(BLOCKS)) == (low, high)
