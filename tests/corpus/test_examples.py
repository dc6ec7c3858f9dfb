"""Examples: texts found by their number, and excerpts of long ones."""

from pathlib import Path
from typing import Any

from tests.corpus.folders import hand_made, write_folder
from thalweg.corpus.examples import MAX_CHARACTERS, example_of, read_examples


def row(content: str, start: int, **columns: Any) -> dict[str, Any]:
    words = [{"word": "a", "start": 0}, {"word": "dull", "start": start}, {"word": "b", "start": None}]
    methods = [{"method": "alti", "word_shares": [0.1, -0.6, 0.3]}, {"method": "failed", "word_shares": None}]
    return hand_made(4, content=content, words=words, methods=methods, prediction="negative", **columns)


def test_example_when_the_text_is_short_then_has_all_of_it() -> None:
    example = example_of(row("a dull film", 2, probability=0.75))
    assert (example.excerpt, example.text, example.line, example.probability) == ("a dull film", 4, 5, 0.75)
    assert example.words == {"alti": ((0, "a", 0.1), (2, "dull", -0.6))}


def test_example_when_the_text_is_long_then_is_cut_around_the_largest_word() -> None:
    content = "x" * 5000 + " dull " + "y" * 5000
    example = example_of(row(content, 5001))
    ((start, word, _),) = example.words["alti"]
    assert len(example.excerpt) == MAX_CHARACTERS
    assert example.excerpt[start : start + 4] == word == "dull"


def test_examples_when_read_then_are_found_in_their_shards(tmp_path: Path) -> None:
    for name in "ab":
        rows = [hand_made(3 * "ab".index(name) + n, content=f"{name}{n}", prediction="p") for n in range(3)]
        write_folder(tmp_path / name, [*rows, hand_made(rows[-1]["text"], target=1)])
    files = [tmp_path / name / "shard-000000.parquet" for name in "ab"]
    examples = read_examples(files, [0, 3], {5, 1, 2})
    assert [(example.text, example.excerpt) for example in examples] == [(1, "a1"), (2, "a2"), (5, "b2")]


def test_examples_when_texts_are_not_kept_then_are_none(tmp_path: Path) -> None:
    write_folder(tmp_path, [hand_made(0, prediction="p")])
    assert read_examples([tmp_path / "shard-000000.parquet"], [0], {0}) == ()
